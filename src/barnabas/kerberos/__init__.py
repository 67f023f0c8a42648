"""Kerberos for nodes and clients: service keys, tickets, and the contexts of GSSAPI.

The C library does the work, through the package `gssapi` of the extra `kerberos`; it is imported
when a node or a client uses the mechanism. It reads `krb5.conf` as other programs do
(`KRB5_CONFIG`). Calls may wait for a file or for the KDC: the rooms above make them in threads.

    login_options     the options of Java's Krb5LoginModule, and the properties beside them
    keytab            the principals in a key table file
    gssapi_library    the package `gssapi`, as far as it is used
    gss_failures      errors of the library as sentences
    gss_contexts      one authentication, of either side
    service_keys      the server's side: contexts that clients establish
    tickets           the client's side: tickets, and contexts with a service
"""
