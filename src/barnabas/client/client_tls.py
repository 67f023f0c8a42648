"""TLS contexts for connections to brokers."""

import os
import ssl

from barnabas.client.client_config import TlsSettings
from barnabas.config import ConfigError
from barnabas.private_files import memory_file


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context that trusts and authenticates as the settings say.

    Raises ConfigError when a certificate or key cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.trust_store is not None:
        # As in Java, each certificate of the store is trusted by itself, not only those of roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    settings = settings.opened()
    context.check_hostname = settings.verify and settings.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if settings.verify else ssl.CERT_NONE
    try:
        _load_trust(context, settings)
        _load_identity(context, settings)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"Cannot use the TLS settings: {error}") from None
    return context


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.ca_file is not None or settings.ca_text is not None:
        if settings.ca_file is not None and os.path.isdir(settings.ca_file):
            context.load_verify_locations(capath=settings.ca_file, cadata=settings.ca_text)
        else:
            context.load_verify_locations(settings.ca_file, cadata=settings.ca_text)
    elif settings.verify:
        context.load_default_certs()


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.certificate_text is not None:
        pem = "\n".join(filter(None, (settings.key_text, settings.certificate_text)))
        with memory_file(pem.encode()) as path:
            context.load_cert_chain(path, settings.key_file, settings.key_password or "")
    elif settings.certificate_file is not None:
        context.load_cert_chain(
            settings.certificate_file, settings.key_file, settings.key_password or ""
        )
