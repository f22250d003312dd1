package io.tidegate.spring;

import io.tidegate.Payload;
import io.tidegate.worker.Job;
import io.tidegate.worker.WorkerBuilder;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;

/** Finds the methods with {@link TidegateHandler}, and adds them to a worker. */
final class HandlerMethods {
    private HandlerMethods() {}

    /** Adds all handlers of the beans; returns how many there are. */
    static int addAll(ListableBeanFactory beans, WorkerBuilder worker) {
        int handlers = 0;
        for (String name : beans.getBeanDefinitionNames()) {
            Class<?> type = beans.getType(name, false);
            if (type == null) {
                continue;
            }
            for (Map.Entry<Method, TidegateHandler> method : methods(type).entrySet()) {
                add(worker, method.getValue().value(), beans.getBean(name), method.getKey());
                handlers++;
            }
        }
        return handlers;
    }

    private static Map<Method, TidegateHandler> methods(Class<?> type) {
        MethodIntrospector.MetadataLookup<TidegateHandler> lookup =
                method -> AnnotatedElementUtils.findMergedAnnotation(method, TidegateHandler.class);
        return MethodIntrospector.selectMethods(type, lookup);
    }

    private static void add(WorkerBuilder worker, String queue, Object bean, Method declared) {
        // A proxy has the advice of the bean, such as transactions.
        Method method = AopUtils.selectInvocableMethod(declared, bean.getClass());
        method.setAccessible(true);
        Class<?>[] types = method.getParameterTypes();
        boolean takesPayload = types.length > 0 && types[0] != Job.class;
        boolean takesJob = types.length > 0 && types[types.length - 1] == Job.class;
        if (types.length != (takesPayload ? 1 : 0) + (takesJob ? 1 : 0)) {
            throw new IllegalStateException(
                    "the parameters of a handler are the payload, and then the Job: " + method.toGenericString());
        }
        Class<?> payload = takesPayload ? types[0] : Payload.class;
        worker.handleWithResult(queue, payload, (value, job) -> {
            if (!takesPayload) {
                return invoke(method, bean, takesJob ? new Object[] {job} : new Object[0]);
            }
            return invoke(method, bean, takesJob ? new Object[] {value, job} : new Object[] {value});
        });
    }

    private static Object invoke(Method method, Object bean, Object[] arguments) throws Exception {
        try {
            return method.invoke(bean, arguments);
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Exception error) {
                throw error;
            }
            throw thrown;
        }
    }
}
