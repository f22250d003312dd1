package io.tidegate.worker;

import java.lang.System.Logger.Level;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * SIGTERM and SIGINT stop a worker; a second one ends the process at once. A shutdown hook could not do that: the JVM
 * ignores signals while it waits for hooks.
 */
final class StopSignals implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.tidegate.worker");
    private static final List<String> NAMES = List.of("TERM", "INT");
    private static final int SIGNAL_STATUS = 128;

    private final List<Runnable> undo = new ArrayList<>();
    private final AtomicBoolean isFirst = new AtomicBoolean(true);
    private final Runnable stop;

    private StopSignals(Runnable stop) {
        this.stop = stop;
    }

    /** Calls this at the first signal, until it is closed. */
    static StopSignals install(Runnable stop) {
        StopSignals signals = new StopSignals(stop);
        for (String name : NAMES) {
            try {
                signals.handle(name);
            } catch (ReflectiveOperationException unavailable) {
                LOG.log(Level.WARNING, "this JVM does not let SIG" + name + " stop the worker", unavailable);
            }
        }
        return signals;
    }

    /** The API of signals is in a module of the JDK that not every runtime has. */
    private void handle(String name) throws ReflectiveOperationException {
        Class<?> signalClass = Class.forName("sun.misc.Signal");
        Class<?> handlerClass = Class.forName("sun.misc.SignalHandler");
        Object signal = signalClass.getConstructor(String.class).newInstance(name);
        Method number = signalClass.getMethod("getNumber");
        Method handle = signalClass.getMethod("handle", signalClass, handlerClass);
        int status = SIGNAL_STATUS + (Integer) number.invoke(signal);
        InvocationHandler received = (proxy, method, arguments) -> switch (method.getName()) {
            case "handle" -> {
                received(status);
                yield null;
            }
            case "equals" -> proxy == arguments[0];
            case "hashCode" -> System.identityHashCode(proxy);
            default -> "StopSignals";
        };
        ClassLoader loader = StopSignals.class.getClassLoader();
        Object handler = Proxy.newProxyInstance(loader, new Class<?>[] {handlerClass}, received);
        Object before = handle.invoke(null, signal, handler);
        undo.add(() -> restore(handle, signal, before));
    }

    private void received(int status) {
        if (isFirst.getAndSet(false)) {
            stop.run();
        } else {
            Runtime.getRuntime().halt(status);
        }
    }

    private static void restore(Method handle, Object signal, Object before) {
        try {
            handle.invoke(null, signal, before);
        } catch (ReflectiveOperationException error) {
            LOG.log(Level.WARNING, "failed to restore the handler of a signal", error);
        }
    }

    /** Restores the handlers of before. */
    @Override
    public void close() {
        undo.forEach(Runnable::run);
    }
}
