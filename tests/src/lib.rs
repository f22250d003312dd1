//! Tests of the whole: daemons, Redis and the wire. They are in `tests/tests`, one folder a suite.
