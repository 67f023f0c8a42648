"""Handlers of security: SASL, ACLs, delegation tokens, client quotas, SCRAM credentials."""
