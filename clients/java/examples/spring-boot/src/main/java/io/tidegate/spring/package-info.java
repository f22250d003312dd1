/** A Spring Boot starter: a client and a worker from properties. */
package io.tidegate.spring;
