------------------------------- MODULE Mutants -------------------------------
(***************************************************************************)
(* The rules of Lifecycle, each broken in one place: check.py puts one of  *)
(* these in the place of the rule, and expects a property to be violated.  *)
(* A model that stays green whatever one breaks would prove nothing.       *)
(***************************************************************************)
EXTENDS Lifecycle

\* A settle is accepted from whoever believes in a lease.
NoFence(r, token) == r.state = "RUNNING"

\* A lease that is taken away, or given back, leaves its token behind.
TokenKept(r, target) == [r EXCEPT !.state = target, !.left = 0, !.cancel = FALSE]

\* The version stays as it is at a claim.
VersionKept(r, w, token) ==
    [r EXCEPT !.state = "RUNNING", !.attempt = @ + 1, !.token = token, !.owner = w, !.left = LeaseEnd(r)]

\* A hand-back spends the attempt.
HandBackSpends(r, delay) ==
    IF r.cancel THEN End(r, "CANCELLED")
    ELSE [LeaveRunning(r, IF delay > 0 THEN "DELAYED" ELSE "SCHEDULED") EXCEPT !.due = delay]

\* A lost lease goes back to the queue, however many attempts there were.
ReclaimForever(r) == IF IsOver(r) THEN LifetimeEnded(r) ELSE LeaveRunning(r, "SCHEDULED")

\* Tick takes leases away that have not expired.
Impatient(r) == r.state = "RUNNING" /\ r.left <= 1

\* The end of the parent leaves no mark.
NoMark(j, r, next) == mark

\* Nobody looks for leases that have expired.
NoReclaim(r) == FALSE
=============================================================================
