/** For your tests: a fake in memory whose clock can be moved, and the starter of a real server. */
package io.tidegate.testing;
