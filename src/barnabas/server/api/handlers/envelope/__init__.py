"""The controller's handler of requests that brokers forward."""
