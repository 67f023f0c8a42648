"""The client's side of Kerberos: tickets, which are replaced in time, and contexts with a service.

As in Kafka's `KerberosLogin`, tickets of a keytab are got again after a share of their life
(`sasl.kerberos.ticket.renew.window.factor`). Those of a cache are another program's (`kinit`):
each login reads them again.
"""

import functools
import itertools
import os
import random
import threading
import time
from typing import Final

from barnabas.kerberos.gss_contexts import KerberosContext
from barnabas.kerberos.gss_failures import KerberosError, kerberos_error
from barnabas.kerberos.gssapi_library import GssCredentials, Library
from barnabas.kerberos.login_options import KerberosLogin
from barnabas.kerberos.service_keys import canonical_name, check_keytab, library

_CACHE_NUMBERS: Final = itertools.count()
_LOGINS_MAX: Final = 100


class Tickets:
    """The tickets of one login, for threads."""

    def __init__(self, login: KerberosLogin) -> None:
        self.login = login
        self._lock = threading.Lock()
        self._credentials: GssCredentials | None = None
        self._renewed_at_s = 0.0
        self._renew_at_s = 0.0
        self._ends_at_s = 0.0

    def check(self) -> None:
        """Raise KerberosError when the library or the keytab cannot be used; asks no KDC."""
        kinds, login = library(), self.login
        if login.keytab is not None and login.principal is not None:
            check_keytab(login.keytab, canonical_name(kinds, login.principal))

    def start(self, host: str) -> KerberosContext:
        """Return a context with the service on a host. Raises KerberosError.

        It may ask the KDC, which may take seconds.
        """
        kinds = library()
        credentials = self._current(kinds)
        service = f"{self.login.service}@{host}"
        name = kinds.Name(service, kinds.NameType.hostbased_service)
        context = kinds.SecurityContext(
            name=name,
            creds=credentials,
            usage="initiate",
            mech=kinds.MechType.kerberos,
            flags=kinds.RequirementFlag.mutual_authentication | kinds.RequirementFlag.integrity,
        )
        shown = f"{self.login.service}/{host}"
        return KerberosContext(
            kinds,
            context,
            step_failure=f"no login at {shown}",
            message_failure=f"a message of {shown} is refused",
        )

    def _current(self, kinds: Library) -> GssCredentials:
        """Return valid credentials. Raises KerberosError."""
        if self.login.keytab is None:
            return self._acquired(kinds)
        with self._lock:
            now_s = time.time()
            has_ended = now_s >= self._ends_at_s
            may_renew = now_s >= self._renewed_at_s + self.login.renewal.min_time_s
            if self._credentials is None or has_ended or (now_s >= self._renew_at_s and may_renew):
                self._renew(kinds, now_s, has_ended=has_ended)
            if self._credentials is None:
                raise KerberosError("there are no tickets")
            return self._credentials

    def _renew(self, kinds: Library, now_s: float, *, has_ended: bool) -> None:
        """Get tickets from the KDC; while the present ones last, a failure only delays it."""
        self._renewed_at_s = now_s
        try:
            credentials = self._acquired(kinds)
        except KerberosError:
            if has_ended:
                raise
            return
        self._credentials = credentials
        lifetime_s = float(credentials.lifetime or 0)
        self._ends_at_s = now_s + lifetime_s
        times = self.login.renewal
        share = times.window_factor * (1 + times.jitter * random.random())
        self._renew_at_s = now_s + lifetime_s * min(share, 1.0)

    def _acquired(self, kinds: Library) -> GssCredentials:
        login = self.login
        store: dict[str, str] = {}
        if login.keytab is not None and login.principal is not None:
            check_keytab(login.keytab, canonical_name(kinds, login.principal))
            store["client_keytab"] = f"FILE:{login.keytab}"
            store["ccache"] = f"MEMORY:barnabas-{os.getpid()}-{next(_CACHE_NUMBERS)}"
        elif login.ticket_cache is not None:
            store["ccache"] = login.ticket_cache
        source = f"keytab {login.keytab}" if login.keytab else _shown_cache(login.ticket_cache)
        try:
            name = None
            if login.principal is not None:
                name = kinds.Name(login.principal, kinds.NameType.kerberos_principal)
            credentials = kinds.Credentials(
                name=name,
                usage="initiate",
                mechs=[kinds.MechType.kerberos],
                store=store or None,
            )
            lifetime_s = credentials.lifetime
        except kinds.exceptions.GSSError as error:
            user = f" for {login.principal}" if login.principal else ""
            raise kerberos_error(kinds, error, f"no ticket{user} from the {source}") from None
        if lifetime_s is not None and lifetime_s <= 0:
            raise KerberosError(f"the ticket of the {source} has expired; run kinit again")
        return credentials


@functools.lru_cache(_LOGINS_MAX)
def tickets_of(login: KerberosLogin) -> Tickets:
    """Return the tickets of a login, which all clients of this process share."""
    return Tickets(login)


def _shown_cache(cache: str | None) -> str:
    return "default cache of tickets" if cache is None else f"cache of tickets {cache}"
