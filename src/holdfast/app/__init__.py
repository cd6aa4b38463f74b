"""The Python API: apps, job types, submits, handles, workflows."""

from holdfast.app.handle import JobHandle
from holdfast.app.holdfast import Holdfast
from holdfast.app.job_type import BoundJobType, Call, JobType
from holdfast.app.options import JobOptions, SubmitOptions
from holdfast.app.workflow import Workflow, WorkflowHandle, chain, fan_in, fan_out

__all__ = [
    "BoundJobType",
    "Call",
    "Holdfast",
    "JobHandle",
    "JobOptions",
    "JobType",
    "SubmitOptions",
    "Workflow",
    "WorkflowHandle",
    "chain",
    "fan_in",
    "fan_out",
]
