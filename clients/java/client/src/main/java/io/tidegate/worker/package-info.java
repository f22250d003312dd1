/** Workers: run handlers for the jobs of queues. */
package io.tidegate.worker;
