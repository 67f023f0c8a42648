"""The users of a secured node or group, with random passwords and ready files for their clients.

A user whose file was removed gets a new password at the next start: this is also the way back for
an administrator who cannot log in.
"""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from barnabas.config import properties_file
from barnabas.server.node.initial_users import (
    Grant,
    InitialUser,
    Send,
    add_missing_grants,
    add_user,
)
from barnabas.server.node.secured_files import SecuredFiles

logger = logging.getLogger(__name__)

ADMIN: Final = "admin"
_PASSWORD_BYTES: Final = 24

OnPassword = Callable[[str], None]
"""Gets a new password of the administrator."""


@attrs.frozen
class SecuredUser:
    """A user: what it may do, and further properties of its file."""

    name: str
    grants: Sequence[Grant] = ()
    needed: Sequence[Grant] = ()
    """Grants without which the user's process does not start: at each start the user gets those
    that it lacks, for example because an older version made it."""
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    extra: Path | None = None
    """A file whose properties win over `settings`."""


class SecuredUsers:
    """The administrator and the other users, whose files are in one directory."""

    def __init__(
        self,
        files: SecuredFiles,
        others: Sequence[SecuredUser] = (),
        on_password: OnPassword | None = None,
    ) -> None:
        self._files = files
        self._users = (SecuredUser(ADMIN), *others)
        self._on_password = on_password

    async def prepare(self, send: Send, bootstrap: str) -> None:
        """Add the users that have no file yet, and write the files of all.

        A user that has a file gets the grants that it needs and lacks. Raises StartupError,
        ConfigError, OSError and what `send` raises. A file is written after its user is added: a
        process that is killed between the two gives the user another password at the next start.
        """
        for user in self._users:
            known = self._files.password(user.name)
            password = secrets.token_urlsafe(_PASSWORD_BYTES) if known is None else known
            if known is None:
                grants = (*user.grants, *user.needed)
                await add_user(send, InitialUser(user.name, password, grants))
            elif user.needed:
                await self._upgrade(send, user)
            given = properties_file.read(user.extra) if user.extra else {}
            extra = {**user.settings, **given}
            self._files.write_client_files(user.name, password, bootstrap, extra)
            if user.name == ADMIN and known is None and self._on_password is not None:
                self._on_password(password)
        if self._files.remove_http_users():
            logger.info("removed http-users: companions have the users of the node")

    async def _upgrade(self, send: Send, user: SecuredUser) -> None:
        for acl in await add_missing_grants(send, user.name, user.needed):
            logger.info(
                "added a missing acl principal=%s operation=%s resource=%s name=%s",
                acl.principal,
                acl.operation,
                acl.resource_type,
                acl.resource_name,
            )
