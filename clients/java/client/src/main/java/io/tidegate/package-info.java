/**
 * The client of Tidegate, a delay-queue service over Redis. {@link io.tidegate.TidegateClient} publishes and manages
 * jobs; {@link io.tidegate.worker.Worker} runs them.
 */
package io.tidegate;
