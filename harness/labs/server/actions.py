"""Actions of teams and organisers: one table for pages, API and its description.

Each action is a function of the service, the caller and its arguments; an action that needs none has no fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.errors import HarnessError
from harness.labs.acts import act, reveal
from harness.labs.closing import extend, freeze, reopen
from harness.labs.journal import Appealed, Disqualified, Refunded, Reinstated
from harness.labs.names import normalised_reason
from harness.labs.roster import BASELINE, add_team, check_name, is_known, known_as, revoke_team
from harness.labs.server.accounts import Caller, Role
from harness.labs.server.service import PUBLISHED, Service
from harness.labs.settings import moment
from harness.labs.submit import choose_primary, withdraw_run


class Done(msgspec.Struct, frozen=True):
    """What an action did, in one line; `secret` is a token or a link, which is shown once and stored nowhere."""

    done: str
    secret: str = ""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of an action."""


class Reason(Arguments, frozen=True):
    """A reason, in one sentence."""

    reason: str = ""


class Label(Arguments, frozen=True):
    """A run of the caller's team."""

    label: str


class Version(Label, frozen=True):
    """A version of a run of the caller's team; by default the latest one."""

    version: int | None = None
    reason: str = ""


class OfTeam(Version, frozen=True, kw_only=True):
    """A version of a run of any team; by default the latest one."""

    team: str


class Invite(Arguments, frozen=True):
    """An invitation: the team's name, empty if the team chooses it; an e-mail address for the outbox; days it holds."""

    team: str = ""
    contact: str = ""
    days: int = 14


class Request(Arguments, frozen=True):
    """Id of a request to join, or of an invitation."""

    id: str


class UploadId(Reason, frozen=True, kw_only=True):
    """Id of an upload that could not be scored."""

    id: str


class Team(Reason, frozen=True, kw_only=True):
    """A team."""

    team: str


class Deadline(Reason, frozen=True, kw_only=True):
    """A deadline, such as 2026-09-01T23:59:59+02:00."""

    deadline: str


class Organiser(Arguments, frozen=True):
    """Name of an organiser."""

    name: str


Function = Callable[[Service, Caller, Any, str], Done]


@dataclass(frozen=True)
class Action:
    """An action.

    Attributes
    ----------
    function : of the service, the caller, the arguments, and the address of the server.
    summary : what it does, in one sentence.
    """

    name: str
    role: Role
    arguments: type[Arguments]
    function: Function
    summary: str


def _withdraw(service: Service, caller: Caller, given: Version, _: str) -> Done:
    done = withdraw_run(service.lab(), caller.name, given.label, given.version, given.reason)
    return Done(f"{done.title}: withdrawn")


def _primary(service: Service, caller: Caller, given: Label, _: str) -> Done:
    chosen = choose_primary(service.lab(), caller.name, given.label)
    return Done(f"{chosen.title}: is the primary run of {chosen.team}")


def _appeal(service: Service, caller: Caller, given: Version, _: str) -> Done:
    done = act(service.lab(), Appealed, caller.name, given.label, given.version, given.reason)
    return Done(f"{done.title}: your appeal is recorded")


def _invite(service: Service, caller: Caller, given: Invite, address: str) -> Done:
    _refuse_known(service, given.team)
    code = service.accounts.invite(given.team, given.contact, given.days)
    link = f"{address}/join/{code}"
    service.outbox.send(given.contact, f"Invitation: {service.lab().title}", f"Join the lab at {link}\n")
    return Done(f"invitation for {given.team or 'a team'}: holds {given.days} days", link)


def _refuse_known(service: Service, team: str) -> None:
    """Raises HarnessError if no team can join by a name: who joins by that of another would get its runs."""
    if team and is_known(service.lab(), service.live.events(), team):
        raise HarnessError(f"team {team}: is in the lab already; if its token was revoked, issue another")
    if team:
        check_name(service.lab(), service.live.events(), team)


def _invited(service: Service, given: Request) -> str:
    """Returns the team of a request or invitation; empty if it has none, or does not exist."""
    return next((each.team for each in service.accounts.invitations() if each.id == given.id), "")


def _accept(service: Service, caller: Caller, given: Request, address: str) -> Done:
    _refuse_known(service, _invited(service, given))
    invitation = service.accounts.decide(given.id, "open")
    text = f"Your team {invitation.team} may join; open the link that you got when you asked, at {address}\n"
    service.outbox.send(invitation.contact, f"Accepted: {service.lab().title}", text)
    return Done(f"team {invitation.team}: may join")


def _refuse(service: Service, caller: Caller, given: Request, _: str) -> Done:
    invitation = service.accounts.decide(given.id, "refused")
    return Done(f"team {invitation.team or 'without a name'}: may not join")


def _revoke(service: Service, caller: Caller, given: Team, _: str) -> Done:
    lab = service.lab()
    revoke_team(lab, given.team, given.reason)
    # Else they were scored if the team gets another token before a worker takes them.
    service.queue.refuse(known_as(lab, given.team), "the team's token was revoked while the upload waited")
    return Done(f"team {given.team}: its token is revoked")


def _reissue(service: Service, caller: Caller, given: Team, _: str) -> Done:
    name, token = add_team(service.lab(), given.team)
    return Done(f"team {given.team}: may submit as {name}", token)


def _retry(service: Service, caller: Caller, given: UploadId, _: str) -> Done:
    upload = service.queue.retry(given.id)
    return Done(f"upload {upload.file} of team {upload.team}: is scored again")


def _discard(service: Service, caller: Caller, given: UploadId, _: str) -> Done:
    reason = normalised_reason(given.reason) or "the organisers have refused it"
    upload = service.queue.discard(given.id, f"{reason}; it could not be scored")
    return Done(f"upload {upload.file} of team {upload.team}: refused and deleted")


def _act_on(kind: type[Disqualified] | type[Reinstated] | type[Refunded], said: str) -> Function:
    """Returns the function of an act on a team's run; the team is told by mail."""

    def function(service: Service, caller: Caller, given: OfTeam, _: str) -> Done:
        if given.team == BASELINE:
            raise HarnessError(f"team {BASELINE!r}: is the organisers'; change its runs with 'harness lab'")
        done = act(service.lab(), kind, given.team, given.label, given.version, given.reason)
        text = f"{done.title}: {said}." + (f"\nReason: {given.reason}" if given.reason else "")
        service.outbox.send(service.accounts.contact(done.team), f"{done.title}: {said}", f"{text}\n")
        return Done(f"{done.title}: {said}")

    return function


def _extend(service: Service, caller: Caller, given: Deadline, _: str) -> Done:
    deadline = moment("deadline", given.deadline)
    extend(service.lab(), deadline, given.reason)
    return Done(f"the deadline is {deadline.isoformat()}")


def _freeze(service: Service, caller: Caller, given: Reason, _: str) -> Done:
    freeze(service.lab(), given.reason)
    return Done("the lab is frozen: teams cannot submit, withdraw or choose a primary run")


def _reopen(service: Service, caller: Caller, given: Reason, _: str) -> Done:
    reopen(service.lab(), given.reason)
    return Done("the lab is open again")


def _publish(service: Service, caller: Caller, given: Arguments, _: str) -> Done:
    lab = service.lab()
    if waiting := service.queue.waiting():
        how = "reopen the lab, and publish when they are scored" if service.frozen() else "publish when they are"
        raise HarnessError(f"{waiting} uploads are waiting to be scored; {how}")
    if held := service.queue.troubled():
        raise HarnessError(f"{len(held)} uploads could not be scored; decide about them first")
    if lab.private and not service.revealed():
        reveal(lab)
    if not service.frozen():
        freeze(lab, PUBLISHED)
    return Done(
        "the lab is frozen; with private judgments, its final ranking is revealed; download its site when it is built"
    )


def _add_organiser(service: Service, caller: Caller, given: Organiser, _: str) -> Done:
    return Done(f"organiser {given.name}: added", service.accounts.add_organiser(given.name))


def _remove_organiser(service: Service, caller: Caller, given: Organiser, _: str) -> Done:
    service.accounts.remove_organiser(given.name)
    return Done(f"organiser {given.name}: removed")


_ALL = (
    Action("withdraw", "team", Version, _withdraw, "Withdraw a run; it is no longer ranked."),
    Action("primary", "team", Label, _primary, "Choose the team's primary run."),
    Action("appeal", "team", Version, _appeal, "Appeal against the disqualification of a run."),
    Action("invite", "organiser", Invite, _invite, "Make an invitation link for one team."),
    Action("accept", "organiser", Request, _accept, "Accept a request to join."),
    Action("refuse", "organiser", Request, _refuse, "Refuse a request to join, or cancel an invitation."),
    Action("issue", "organiser", Team, _reissue, "Add a team, or give a team whose token was revoked another one."),
    Action("retry", "organiser", UploadId, _retry, "Score an upload again that could not be scored."),
    Action("discard", "organiser", UploadId, _discard, "Refuse an upload that could not be scored; deletes its file."),
    Action("revoke", "organiser", Team, _revoke, "Revoke a team's token; its submissions stay."),
    Action("disqualify", "organiser", OfTeam, _act_on(Disqualified, "disqualified"), "Disqualify a run."),
    Action("reinstate", "organiser", OfTeam, _act_on(Reinstated, "reinstated"), "Lift a disqualification."),
    Action("refund", "organiser", OfTeam, _act_on(Refunded, "does not count towards the caps"), "Refund a submission."),
    Action("extend", "organiser", Deadline, _extend, "Set a later deadline."),
    Action("freeze", "organiser", Reason, _freeze, "Freeze the lab: teams can change nothing."),
    Action("reopen", "organiser", Reason, _reopen, "Open a frozen lab again."),
    Action("publish", "organiser", Arguments, _publish, "Freeze the lab; with private judgments, reveal the ranking."),
    Action("add-organiser", "organiser", Organiser, _add_organiser, "Add an organiser, or issue another token."),
    Action("remove-organiser", "organiser", Organiser, _remove_organiser, "Remove an organiser."),
)
ACTIONS: Mapping[str, Action] = {each.name: each for each in _ALL}


def perform(service: Service, caller: Caller, action: Action, given: Arguments, address: str) -> Done:
    """Performs an action and records it in the audit trail.

    Raises
    ------
    HarnessError
        The action is refused: one line per reason.
    """
    done = action.function(service, caller, given, address)
    details = msgspec.to_builtins(given)
    if isinstance(given, Request):
        details["team"] = _invited(service, given)
    service.accounts.record(caller.actor, action.name, details)
    return done


def parsed(action: Action, given: Mapping[str, Any] | bytes) -> Arguments:
    """Returns the arguments of an action from JSON, or from the fields of a form.

    Raises
    ------
    HarnessError
        A field is unknown, missing or of a wrong type.
    """
    try:
        if isinstance(given, bytes):
            return msgspec.json.decode(given or b"{}", type=action.arguments)
        fields = {name: value for name, value in given.items() if value != ""}
        return msgspec.convert(fields, action.arguments, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise HarnessError(f"{action.name}: {_worded(str(error))}") from None


def _worded(reason: str) -> str:
    """Returns a validator's reason as the harness words its own."""
    if not reason:
        return "expected a JSON object"
    return reason if reason.startswith("JSON") else reason[:1].lower() + reason[1:]
