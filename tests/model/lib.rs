//! The models of the lifecycle and of lanes. They are the tests of a package of their own, so that they are optimized:
//! they walk through millions of states.
