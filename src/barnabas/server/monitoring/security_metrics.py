"""Metrics of listeners with TLS or SASL; a node without them has none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.server.transport.acceptor import Listener
    from barnabas.server.transport.login import LoginPolicy

_DAY_S: Final = 86_400


def security_families(
    listeners: "Iterable[Listener]", logins: "Mapping[str, LoginPolicy]"
) -> Iterator[Any]:
    """Yield the days that certificates have left, failed renewals, and failed authentications."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    with_tls = [(each.name, each.tls) for each in listeners if each.tls is not None]
    if with_tls:
        days = GaugeMetricFamily(
            "barnabas_certificate_remaining_days",
            "Days until the end of the certificate of a listener",
            labels=["listener"],
        )
        renewals = CounterMetricFamily(
            "barnabas_tls_failed_renewals",
            "Key stores and trust stores that could not be read again",
            labels=["listener"],
        )
        for name, tls in with_tls:
            days.add_metric([name], tls.certificate_left.total_seconds() / _DAY_S)
            renewals.add_metric([name], tls.failed_reloads)
        yield days
        yield renewals
    failures = {name: tls.failures.count for name, tls in with_tls}
    for name, policy in logins.items():
        failures[name] = failures.get(name, 0) + policy.failures.count
    if failures:
        family = CounterMetricFamily(
            "barnabas_authentication_failures",
            "Clients of a listener that could not shake hands or authenticate",
            labels=["listener"],
        )
        for name, count in failures.items():
            family.add_metric([name], count)
        yield family
