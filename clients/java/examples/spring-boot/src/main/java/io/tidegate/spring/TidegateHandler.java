package io.tidegate.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a method of a bean the handler of a queue. Its parameters are the payload, and then a
 * {@link io.tidegate.worker.Job}; each may be left out. The value that it returns is the result of the job.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface TidegateHandler {
    /**
     * The name of the queue.
     *
     * @return the name
     */
    String value();
}
