"""What holds for all tests."""

import signal

# Who starts the tests in the background may have them ignore it, and their children would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
