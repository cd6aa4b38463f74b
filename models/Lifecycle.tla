------------------------------ MODULE Lifecycle ------------------------------
(***************************************************************************)
(* The life of two jobs in the hands of two workers, as core/states.py and *)
(* core/decisions.py have it.  Job 2 waits for job 1 (AFTER).              *)
(*                                                                         *)
(* Every verb of the store is one atomic step (PORT-1).  Around it everything  *)
(* may go wrong: a worker stops for as long as it likes (no step of its    *)
(* own is ever due), dies, or never gets an answer; what it said arrives   *)
(* late, or again.  Tick runs in any number of processes: each of its      *)
(* parts is a step that anybody may take at any time (PORT-6).                 *)
(*                                                                         *)
(* Time is what is left of it: each deadline counts down to 0, and Clock   *)
(* moves them all.  So the clock is bounded, and a run need not end.       *)
(*                                                                         *)
(* Invariants bear the numbers of core/README.md.  See README.md here.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Workers,
    MaxAttempts,     \* of a job, in each of its lives
    Delays,          \* how long a submitted job may wait for its time, and one that is handed back
    Visibility,      \* how long a lease holds
    Backoff,         \* how long a failed job waits
    Lifetime,        \* how long a job may live; 0: for ever
    CanPause         \* whether a person may pause the queue

Jobs == {1, 2}
Parent == 1
Child == 2

NoToken == <<"-", 0>>
Nobody == "-"
Gone == "gone"       \* the owner was a process that is no more

Live == {"PENDING", "DELAYED", "SCHEDULED", "RUNNING", "RETRYING"}
Terminal == {"COMPLETED", "FAILED", "DEAD_LETTER", "CANCELLED"}
Replayable == {"FAILED", "DEAD_LETTER"}

\* The transition table.  tests/unit/models/test_model_table.py holds it to core/states.py: one row a line.
Table == {
    <<"-", "PENDING", "submit">>,
    <<"PENDING", "SCHEDULED", "dependencies met">>,
    <<"PENDING", "DELAYED", "dependencies met">>,
    <<"PENDING", "FAILED", "dependency ended so">>,
    <<"PENDING", "DEAD_LETTER", "dependency ended so">>,
    <<"PENDING", "CANCELLED", "dependency ended so">>,
    <<"DELAYED", "SCHEDULED", "time reached">>,
    <<"SCHEDULED", "RUNNING", "claim">>,
    <<"RUNNING", "COMPLETED", "ack">>,
    <<"RUNNING", "RETRYING", "failure, attempts remain">>,
    <<"RUNNING", "DEAD_LETTER", "failure, no attempt remains">>,
    <<"RUNNING", "FAILED", "permanent failure">>,
    <<"RUNNING", "SCHEDULED", "lease expired or worker dead">>,
    <<"RUNNING", "DEAD_LETTER", "lease expired or worker dead">>,
    <<"RUNNING", "SCHEDULED", "hand-back">>,
    <<"RUNNING", "DELAYED", "hand-back">>,
    <<"RETRYING", "SCHEDULED", "time reached">>,
    <<"RETRYING", "DEAD_LETTER", "failure, no attempt remains">>,
    <<"FAILED", "SCHEDULED", "replay">>,
    <<"DEAD_LETTER", "SCHEDULED", "replay">>,
    <<"FAILED", "PENDING", "its dependency is replayed">>,
    <<"DEAD_LETTER", "PENDING", "its dependency is replayed">>,
    <<"PENDING", "CANCELLED", "cancel">>,
    <<"DELAYED", "CANCELLED", "cancel">>,
    <<"SCHEDULED", "CANCELLED", "cancel">>,
    <<"RUNNING", "CANCELLED", "cancel">>,
    <<"RETRYING", "CANCELLED", "cancel">>,
    <<"PENDING", "DEAD_LETTER", "lifetime exceeded">>,
    <<"DELAYED", "DEAD_LETTER", "lifetime exceeded">>,
    <<"SCHEDULED", "DEAD_LETTER", "lifetime exceeded">>,
    <<"RUNNING", "DEAD_LETTER", "lifetime exceeded">>,
    <<"RETRYING", "DEAD_LETTER", "lifetime exceeded">>
}

\* Rows that no run of the model takes, and why.
\* A failure with no attempt left goes to DEAD_LETTER at once, so RETRYING has one left unless max_attempts is lowered by
\* hand in the database; the row is there for that.
Unreached == {
    <<"RETRYING", "DEAD_LETTER", "failure, no attempt remains">>
}

VARIABLES
    job,         \* the store's records
    mark,        \* the store's mark: the parent has ended, and its dependent is still to be told
    paused,      \* whether the queue is paused
    worker,      \* what each worker has in its memory
    last         \* what the last step was; looked at by properties only, never by a step

store == <<job, mark, paused>>
vars == <<job, mark, paused, worker, last>>

-----------------------------------------------------------------------------
(* One record and one event in, the next record out: core/decisions.py. *)

Min(a, b) == IF a < b THEN a ELSE b
IsOver(r) == Lifetime > 0 /\ r.state \in Live /\ r.life = 0
LeaseEnd(r) == IF Lifetime = 0 THEN Visibility ELSE Min(Visibility, r.life)

Unborn == [
    state |-> "-", attempt |-> 0, version |-> 0, replays |-> 0, token |-> NoToken, owner |-> Nobody,
    left |-> 0, due |-> 0, life |-> 0, cancel |-> FALSE, endedByParent |-> FALSE, replayedAlone |-> FALSE]

\* DECIDE-3: out of RUNNING the token is cleared.
LeaveRunning(r, target) ==
    [r EXCEPT !.state = target, !.token = NoToken, !.owner = Nobody, !.left = 0, !.cancel = FALSE]

End(r, target) == [LeaveRunning(r, target) EXCEPT !.due = 0, !.life = 0, !.replayedAlone = FALSE]

Release(r) == [r EXCEPT !.state = IF r.due > 0 THEN "DELAYED" ELSE "SCHEDULED"]

EndByParent(r, parentState) == [r EXCEPT !.state = parentState, !.life = 0, !.endedByParent = TRUE]

\* DECIDE-2: the attempt is counted when it starts; the version grows with every lease.
Claimed(r, w, token) ==
    [r EXCEPT !.state = "RUNNING", !.attempt = @ + 1, !.version = @ + 1, !.token = token, !.owner = w,
              !.left = LeaseEnd(r)]

\* DECIDE-2: a hand-back gives the attempt back.
HandedBack(r, delay) ==
    IF r.cancel THEN End(r, "CANCELLED")
    ELSE [LeaveRunning(r, IF delay > 0 THEN "DELAYED" ELSE "SCHEDULED") EXCEPT !.attempt = @ - 1, !.due = delay]

Failed(r) ==
    IF r.cancel THEN End(r, "CANCELLED")
    ELSE IF r.attempt >= MaxAttempts THEN End(r, "DEAD_LETTER")
    ELSE [LeaveRunning(r, "RETRYING") EXCEPT !.due = Backoff]

LifetimeEnded(r) == End(r, IF r.state = "RUNNING" /\ r.cancel THEN "CANCELLED" ELSE "DEAD_LETTER")

Reclaimed(r) ==
    IF IsOver(r) THEN LifetimeEnded(r)
    ELSE IF r.cancel THEN End(r, "CANCELLED")
    ELSE IF r.attempt >= MaxAttempts THEN End(r, "DEAD_LETTER")
    ELSE LeaveRunning(r, "SCHEDULED")

Anew(r, target) ==
    [r EXCEPT !.state = target, !.attempt = 0, !.replays = @ + 1, !.life = Lifetime, !.endedByParent = FALSE]

\* The outcomes a holder may name, each with its trigger.  One that comes again may even name another one.
Outcomes(r) ==
    {<<End(r, "COMPLETED"), "ack">>}
    \cup {<<Failed(r), IF r.cancel THEN "cancel"
                       ELSE IF r.attempt >= MaxAttempts THEN "failure, no attempt remains"
                       ELSE "failure, attempts remain">>}
    \cup {IF r.cancel THEN <<End(r, "CANCELLED"), "cancel">> ELSE <<End(r, "FAILED"), "permanent failure">>}
    \cup {<<HandedBack(r, delay), IF r.cancel THEN "cancel" ELSE "hand-back">> : delay \in Delays}

\* PORT-2: whoever writes out of RUNNING, or extends, names the pair of job and token that it believes in.
Fence(r, token) == r.state = "RUNNING" /\ r.token = token

\* What the end of a job leaves behind in the same step.
MarkAfter(j, r, next) == IF j = Parent /\ r.state \in Live /\ next.state \in Terminal THEN TRUE ELSE mark

-----------------------------------------------------------------------------
(* How a step is written down. *)

Did(verb, j, token, rows) == last' = [verb |-> verb, job |-> j, token |-> token, rows |-> rows]

\* Change job j to `next`, along the row with this trigger.
Change(j, next, trigger, verb, token) ==
    /\ job' = [job EXCEPT ![j] = next]
    /\ mark' = MarkAfter(j, job[j], next)
    /\ Did(verb, j, token, {<<job[j].state, next.state, trigger>>})

Idle == [phase |-> "idle", job |-> 0, nonce |-> 0, hasSettled |-> FALSE]
TokenOf(w) == <<w, worker[w].nonce>>
Forget(w) == [worker EXCEPT ![w] = [Idle EXCEPT !.nonce = worker[w].nonce]]

-----------------------------------------------------------------------------
(* submit *)

Submit(j) ==
    /\ job[j].state = "-"
    /\ j = Child => job[Parent].state # "-"
    /\ \E delay \in Delays :
        LET pending == [Unborn EXCEPT !.state = "PENDING", !.due = delay, !.life = Lifetime]
            parent == job[Parent].state
            next == IF j = Parent \/ parent = "COMPLETED" THEN Release(pending)
                    ELSE IF parent \in Terminal THEN EndByParent(pending, parent)
                    ELSE pending
            first == <<"-", "PENDING", "submit">>
            second == <<"PENDING", next.state,
                        IF next.endedByParent THEN "dependency ended so" ELSE "dependencies met">>
        IN /\ job' = [job EXCEPT ![j] = next]
           /\ Did("submit", j, NoToken, IF next = pending THEN {first} ELSE {first, second})
    /\ UNCHANGED <<mark, paused, worker>>

(* claim: the answer comes, or is lost and asked for again with the same nonce, or is given up. *)

IsClaimable(j) == job[j].state = "SCHEDULED" /\ ~IsOver(job[j]) /\ ~paused

Hold(w, j, nonce) == [worker EXCEPT ![w] = [phase |-> "holds", job |-> j, nonce |-> nonce, hasSettled |-> FALSE]]
Ask(w, nonce) == [worker EXCEPT ![w] = [Idle EXCEPT !.phase = "asks", !.nonce = nonce]]

Take(w, j, nonce) ==
    /\ IsClaimable(j)
    /\ Change(j, Claimed(job[j], w, <<w, nonce>>), "claim", "claim", <<w, nonce>>)
    /\ worker' \in {Hold(w, j, nonce), Ask(w, nonce)}
    /\ UNCHANGED paused

Claim(w, j) == worker[w].phase = "idle" /\ Take(w, j, worker[w].nonce + 1)

\* The repeat returns what the first one got; where that is gone by now, it claims.
ClaimAgain(w) ==
    /\ worker[w].phase = "asks"
    /\ LET given == {j \in Jobs : job[j].owner = w /\ Fence(job[j], TokenOf(w))}
       IN IF given # {}
          THEN /\ \E j \in given : worker' = Hold(w, j, worker[w].nonce)
               /\ Did("claim", 0, NoToken, {})
               /\ UNCHANGED store
          ELSE \E j \in Jobs : Take(w, j, worker[w].nonce)

GiveUp(w) ==
    /\ worker[w].phase = "asks"
    /\ worker' = Forget(w)
    /\ Did("give up", 0, NoToken, {})
    /\ UNCHANGED store

(* settle: also once more when the answer was lost, and also long after the lease was taken away. *)

\* What the store does with a settle, whoever sent it and whenever.
SettleIn(j, token) ==
    IF Fence(job[j], token)
    THEN \E outcome \in Outcomes(job[j]) : Change(j, outcome[1], outcome[2], "settle", token)
    ELSE /\ Did("settle", j, token, {})
         /\ UNCHANGED <<job, mark>>

Settle(w) ==
    /\ worker[w].phase = "holds"
    /\ SettleIn(worker[w].job, TokenOf(w))
    /\ \/ worker' = Forget(w)
       \/ worker' = [worker EXCEPT ![w].hasSettled = TRUE]
    /\ UNCHANGED paused

\* A settle of a lease that once was, from a worker that has moved on.  To the fence one is like the other.
LateSettle(j) ==
    /\ LET given == UNION {{w} \X (1..worker[w].nonce) : w \in Workers}
           stale == given \ {job[j].token}
       IN stale # {} /\ SettleIn(j, CHOOSE token \in stale : TRUE)
    /\ UNCHANGED <<paused, worker>>

\* The last word of a worker that died: sent before, executed after.
LastWord(j) ==
    /\ job[j].owner = Gone
    /\ SettleIn(j, job[j].token)
    /\ UNCHANGED <<paused, worker>>

(* extend, and what else a heartbeat does *)

Extend(w) ==
    /\ worker[w].phase = "holds"
    /\ LET j == worker[w].job
       IN /\ Did("extend", j, TokenOf(w), {})
          /\ IF Fence(job[j], TokenOf(w))
             THEN /\ job[j].left < LeaseEnd(job[j])
                  /\ job' = [job EXCEPT ![j].left = LeaseEnd(job[j])]
                  /\ UNCHANGED worker
             ELSE worker' = Forget(w) /\ UNCHANGED job
    /\ UNCHANGED <<mark, paused>>

\* Leases in a worker's name that it does not know of: the answer to a claim was given up.
HandBackUnknown(w, j) ==
    /\ job[j].state = "RUNNING" /\ job[j].owner = w
    /\ ~(worker[w].phase = "holds" /\ worker[w].job = j /\ job[j].token = TokenOf(w))
    /\ ~(worker[w].phase = "asks" /\ job[j].token = TokenOf(w))
    /\ Change(j, HandedBack(job[j], 0), IF job[j].cancel THEN "cancel" ELSE "hand-back", "hand back", job[j].token)
    /\ UNCHANGED <<paused, worker>>

(* A worker dies and another one starts in its place, under a name of its own: it hands nothing back. *)

Crash(w) ==
    /\ worker[w].phase # "idle"
    /\ worker' = Forget(w)
    /\ job' = [j \in Jobs |-> IF job[j].owner = w THEN [job[j] EXCEPT !.owner = Gone] ELSE job[j]]
    /\ Did("crash", 0, NoToken, {})
    /\ UNCHANGED <<mark, paused>>

(* what people do *)

Cancel(j) ==
    /\ job[j].state \in Live
    /\ IF job[j].state = "RUNNING"
       THEN /\ ~job[j].cancel
            /\ job' = [job EXCEPT ![j].cancel = TRUE]
            /\ Did("cancel", j, NoToken, {})
            /\ UNCHANGED mark
       ELSE Change(j, End(job[j], "CANCELLED"), "cancel", "cancel", NoToken)
    /\ UNCHANGED <<paused, worker>>

\* What had ended with the parent comes back with it, in the same step.
Replay(j) ==
    /\ job[j].state \in Replayable /\ ~job[j].endedByParent
    /\ LET back == [Anew(job[j], "SCHEDULED") EXCEPT
                        !.replayedAlone = (j = Child /\ job[Parent].state # "COMPLETED"), !.due = 0]
           child == job[Child]
           isRevived == j = Parent /\ child.state \in Replayable /\ child.endedByParent
           rows == {<<job[j].state, "SCHEDULED", "replay">>}
       IN IF isRevived
          THEN /\ job' = [job EXCEPT ![j] = back, ![Child] = Anew(child, "PENDING")]
               /\ Did("replay", j, NoToken, rows \cup {<<child.state, "PENDING", "its dependency is replayed">>})
          ELSE /\ job' = [job EXCEPT ![j] = back]
               /\ Did("replay", j, NoToken, rows)
    /\ UNCHANGED <<mark, paused, worker>>

Pause ==
    /\ CanPause
    /\ paused' = ~paused
    /\ Did("pause", 0, NoToken, {})
    /\ UNCHANGED <<job, mark, worker>>

(* tick, part by part: anybody, at any time *)

CanBeReclaimed(r) == r.state = "RUNNING" /\ (r.left = 0 \/ r.owner = Gone)

Reclaim(j) ==
    /\ CanBeReclaimed(job[j])
    /\ Change(j, Reclaimed(job[j]),
              IF job[j].cancel THEN "cancel"
              ELSE IF IsOver(job[j]) THEN "lifetime exceeded"
              ELSE "lease expired or worker dead",
              "tick", NoToken)
    /\ UNCHANGED <<paused, worker>>

EndLifetime(j) ==
    /\ IsOver(job[j])
    /\ Change(j, LifetimeEnded(job[j]), IF job[j].cancel THEN "cancel" ELSE "lifetime exceeded", "tick", NoToken)
    /\ UNCHANGED <<paused, worker>>

Due(j) ==
    /\ job[j].state \in {"DELAYED", "RETRYING"} /\ job[j].due = 0
    /\ IF job[j].state = "RETRYING" /\ job[j].attempt >= MaxAttempts
       THEN Change(j, End(job[j], "DEAD_LETTER"), "failure, no attempt remains", "tick", NoToken)
       ELSE Change(j, [job[j] EXCEPT !.state = "SCHEDULED"], "time reached", "tick", NoToken)
    /\ UNCHANGED <<paused, worker>>

\* The mark is consumed; a parent that was replayed meanwhile has nothing to tell.
Tell ==
    /\ mark
    /\ mark' = FALSE
    /\ IF job[Parent].state \in Terminal /\ job[Child].state = "PENDING"
       THEN LET met == job[Parent].state = "COMPLETED"
                next == IF met THEN Release(job[Child]) ELSE EndByParent(job[Child], job[Parent].state)
                trigger == IF met THEN "dependencies met" ELSE "dependency ended so"
            IN job' = [job EXCEPT ![Child] = next] /\ Did("tick", Child, NoToken, {<<"PENDING", next.state, trigger>>})
       ELSE UNCHANGED job /\ Did("tick", Child, NoToken, {})
    /\ UNCHANGED <<paused, worker>>

(* the clock *)

Down(n) == IF n > 0 THEN n - 1 ELSE 0

Clock ==
    /\ \E j \in Jobs : job[j].left > 0 \/ job[j].due > 0 \/ job[j].life > 0
    /\ job' = [j \in Jobs |-> [job[j] EXCEPT !.left = Down(@), !.due = Down(@), !.life = Down(@)]]
    /\ Did("clock", 0, NoToken, {})
    /\ UNCHANGED <<mark, paused, worker>>

-----------------------------------------------------------------------------

\* Two states that differ only in what no later step can tell apart are one: how often there was a lease, a replay or a
\* claim does not matter, nor which token it is that a worker no longer believes in.  So there are finitely many states,
\* and runs of any length are covered: any number of hand-backs, lost answers, deaths and replays.
JobView(r) == <<
    r.state, IF r.state \in Terminal THEN 0 ELSE r.attempt, r.left, r.due, r.life, r.cancel, r.endedByParent,
    r.replayedAlone, r.owner = Gone>>
WorkerView(w) == <<
    worker[w].phase, worker[w].job, worker[w].hasSettled,
    {j \in Jobs : job[j].owner = w},
    {j \in Jobs : job[j].owner = w /\ job[j].token = TokenOf(w)}>>
View == <<[j \in Jobs |-> JobView(job[j])], [w \in Workers |-> WorkerView(w)], mark, paused>>
\* Nor does it matter which worker is which, except to fairness.
ViewOfAnyWorkers == <<[j \in Jobs |-> JobView(job[j])], {WorkerView(w) : w \in Workers}, mark, paused>>

Init ==
    /\ job = [j \in Jobs |-> Unborn]
    /\ mark = FALSE
    /\ paused = FALSE
    /\ worker = [w \in Workers |-> Idle]
    /\ last = [verb |-> "-", job |-> 0, token |-> NoToken, rows |-> {}]

Tick(j) == Reclaim(j) \/ EndLifetime(j) \/ Due(j)
People == Pause \/ \E j \in Jobs : Submit(j) \/ Cancel(j) \/ Replay(j)
Work(w) ==
    \/ ClaimAgain(w) \/ GiveUp(w) \/ Settle(w) \/ Extend(w) \/ Crash(w)
    \/ \E j \in Jobs : Claim(w, j) \/ HandBackUnknown(w, j)

Next ==
    \/ People \/ Tell \/ Clock
    \/ \E w \in Workers : Work(w)
    \/ \E j \in Jobs : Tick(j) \/ LastWord(j) \/ LateSettle(j)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What is true of every state *)

STATE_1_OneState == \A j \in Jobs : job[j].state \in {"-"} \cup Live \cup Terminal

\* INVARIANT-2, DECIDE-3: a lease, if and only if RUNNING.
DECIDE_3_TokenOnlyWhileRunning == \A j \in Jobs :
    /\ (job[j].state = "RUNNING") = (job[j].token # NoToken)
    /\ (job[j].state = "RUNNING") = (job[j].owner # Nobody)
    /\ job[j].cancel => job[j].state = "RUNNING"

\* Of all who believe that they hold a job, the fence lets one through at most.
MODEL_1_OneValidLease == \A j \in Jobs :
    Cardinality({w \in Workers : worker[w].phase = "holds" /\ worker[w].job = j /\ Fence(job[j], TokenOf(w))}) <= 1

MODEL_2_AttemptsWithinBudget == \A j \in Jobs : job[j].attempt \in 0..MaxAttempts

DEPEND_3_AfterMeansCompleted ==
    job[Child].state \in {"DELAYED", "SCHEDULED", "RUNNING", "RETRYING"}
        => job[Parent].state = "COMPLETED" \/ job[Child].replayedAlone

DEPEND_6_NobodyWaitsForNothing == job[Child].state = "PENDING" => job[Parent].state \in Live \/ mark

(* What is true of every step *)

STATE_2_OnlyByTheTable == [][
    /\ last'.rows \subseteq Table
    /\ \A j \in Jobs : job'[j].state # job[j].state =>
        \E row \in last'.rows : row[2] = job'[j].state /\ (row[1] = job[j].state \/ last'.verb = "submit")]_job

STATE_3_FinalIsFinal == [][\A j \in Jobs :
    job[j].state \in Terminal /\ job'[j] # job[j] =>
        \/ last'.verb = "replay" /\ job[j].state \in Replayable
        \/ last'.verb = "clock" /\ job'[j].state = job[j].state]_job

STATE_4_RunningByClaimOnly == [][\A j \in Jobs :
    job[j].state # "RUNNING" /\ job'[j].state = "RUNNING" => last'.verb = "claim" /\ last'.job = j]_job

IsHandBack == \E row \in last'.rows : row[3] = "hand-back"

DECIDE_2_AttemptIsCountedAtClaim == [][\A j \in Jobs :
    /\ job'[j].attempt = job[j].attempt + 1 <=> job[j].state # "RUNNING" /\ job'[j].state = "RUNNING"
    /\ job'[j].attempt < job[j].attempt => last'.verb = "replay" \/ IsHandBack
    /\ IsHandBack /\ last'.job = j => job'[j].attempt = job[j].attempt - 1]_job

DECIDE_2_VersionOnlyGrows == [][\A j \in Jobs :
    /\ job'[j].version >= job[j].version
    /\ job'[j].state = "RUNNING" /\ job[j].state # "RUNNING" => job'[j].version = job[j].version + 1]_job

DECIDE_4_OnlyAnAckBeatsACancel == [][\A j \in Jobs :
    job[j].cancel /\ job'[j].state # "RUNNING" => job'[j].state \in {"CANCELLED", "COMPLETED"}]_job

\* The token that a settle names is the job's, or nothing changes.  Without naming one, only tick takes a lease away, and
\* only one that has expired or whose owner is gone.  (A lease ends with its job's lifetime at the latest.)
PORT_2_StaleTokenChangesNothing == [][
    /\ last'.verb \in {"settle", "extend"} /\ store' # store =>
        job[last'.job].state = "RUNNING" /\ job[last'.job].token = last'.token
    /\ \A j \in Jobs : job[j].state = "RUNNING" /\ job'[j].state # "RUNNING" =>
        \/ last'.verb \in {"settle", "hand back"} /\ last'.token = job[j].token
        \/ last'.verb = "tick" /\ (job[j].left = 0 \/ job[j].owner = Gone)]_store

\* A settle that was executed, its answer lost, does nothing when it comes again.
PORT_4_RepeatDoublesNothing == [][\A w \in Workers :
    worker[w].hasSettled /\ last'.verb = "settle" /\ last'.token = TokenOf(w) => store' = store]_store

MODEL_3_NoJobDisappears == [][\A j \in Jobs : job[j].state # "-" => job'[j].state # "-"]_job

\* A token is new whenever it is given out; only a repeated claim whose first lease is gone may bring its own again.
MODEL_4_TokenIsNew == [][last'.verb = "claim" /\ last'.rows # {} =>
    LET w == last'.token[1] IN last'.token[2] > worker[w].nonce \/ worker[w].phase = "asks"]_job

\* The rows that runs take, printed once each: check.py wants to see all of the table but what is Unreached.
ASSUME TLCSet(1, {})
Reached ==
    \A row \in last'.rows : row \in TLCGet(1) \/ (TLCSet(1, TLCGet(1) \cup {row}) /\ PrintT(<<"reached", row>>))

-----------------------------------------------------------------------------
(* What happens in the end *)

HasEnded(j) == job[j].state \in Terminal

TickIsFair == WF_vars(Clock) /\ WF_vars(Tell) /\ \A j \in Jobs : WF_vars(Tick(j))

\* Workers that could do so again and again get the answer to a claim, and once say how it went.  Whoever asks, or has
\* settled, is answered.
Finish(w, j) ==
    /\ worker[w].phase = "holds" /\ worker[w].job = j /\ Fence(job[j], TokenOf(w))
    /\ Settle(w)
    /\ job'[j].attempt = job[j].attempt

WorkersAreFair ==
    /\ \A w \in Workers : WF_vars(ClaimAgain(w)) /\ WF_vars(Settle(w) /\ worker'[w].phase = "idle")
    /\ \A j \in Jobs :
        /\ SF_vars(\E w \in Workers : Claim(w, j) /\ worker'[w].phase = "holds")
        /\ SF_vars(\E w \in Workers : Finish(w, j))

TickOnly == Spec /\ TickIsFair
TickAndWorkers == Spec /\ TickIsFair /\ WorkersAreFair

\* DECIDE-5: with a lifetime, tick alone ends every job, whatever workers and people do.
DECIDE_5_LifetimeEndsAll == \A j \in Jobs : job[j].state # "-" ~> HasEnded(j)

\* Without one, workers that go on end every job, but for those in a queue that is paused, and unless somebody replays for
\* ever.
ReplaysEnd == <>[][\A j \in Jobs : HasEnded(j) => HasEnded(j)']_vars
MODEL_5_EveryJobEnds == ReplaysEnd => \A j \in Jobs : job[j].state # "-" ~> HasEnded(j) \/ paused

=============================================================================
