package io.tidegate.worker;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.function.Consumer;

/** The listeners of a worker. What they throw does not reach it. */
record Listeners(List<WorkerListener> all) {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");

    void tell(Consumer<WorkerListener> event) {
        for (WorkerListener listener : all) {
            try {
                event.accept(listener);
            } catch (RuntimeException error) {
                LOG.log(Level.WARNING, "a listener of the worker failed", error);
            }
        }
    }
}
