"""The users of a secured node or group, with random passwords and ready files for their clients.

A user whose file was removed gets a new password at the next start: this is also the way back for
an administrator who cannot log in.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from barnabas.config import properties_file
from barnabas.server.node.initial_users import Grant, InitialUser, Send, add_user
from barnabas.server.node.secured_files import SecuredFiles

ADMIN: Final = "admin"
_PASSWORD_BYTES: Final = 24

OnPassword = Callable[[str, bool], None]
"""Gets the administrator's password, and True when it is new."""


@attrs.frozen
class SecuredUser:
    """A user: what it may do, and a file whose properties its file has too."""

    name: str
    grants: Sequence[Grant] = ()
    extra: Path | None = None


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

        Nothing is sent when all users have files. Raises StartupError, ConfigError, OSError and
        what `send` raises. A file is written after its user is added: a process that is killed
        between the two gives the user another password at the next start.
        """
        for user in self._users:
            password = self._files.password(user.name)
            is_new = password is None
            if password is None:
                password = secrets.token_urlsafe(_PASSWORD_BYTES)
                await add_user(send, InitialUser(user.name, password, user.grants))
            extra: Mapping[str, str] = properties_file.read(user.extra) if user.extra else {}
            self._files.write_client_files(user.name, password, bootstrap, extra)
            if user.name == ADMIN and self._on_password is not None:
                self._on_password(password, is_new)
