"""Key stores and trust stores of Java as PEM: PKCS12, JKS, and the DER in them.

Nodes and clients read them; the rooms of both are above.

    stores          key stores and trust stores of any format as PEM
    java_keystore   JKS, Java's own format
    der             the binary form of certificates and keys
"""
