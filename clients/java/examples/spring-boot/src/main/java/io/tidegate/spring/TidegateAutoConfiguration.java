package io.tidegate.spring;

import io.tidegate.ClientBuilder;
import io.tidegate.TidegateClient;
import io.tidegate.worker.Middleware;
import io.tidegate.worker.WorkerListener;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/** A client, and a worker if beans have handlers. */
@AutoConfiguration
@EnableConfigurationProperties(TidegateProperties.class)
public class TidegateAutoConfiguration {
    /**
     * The client, unless the application has one.
     *
     * @param properties the properties
     * @return the client
     */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public TidegateClient tidegateClient(TidegateProperties properties) {
        ClientBuilder builder = TidegateClient.builder().timeLimit(properties.timeLimit());
        if (properties.url() != null) {
            builder.url(properties.url());
        }
        if (properties.key() != null) {
            builder.key(properties.key());
        }
        if (properties.namespace() != null) {
            builder.namespace(properties.namespace());
        }
        return builder.build();
    }

    /**
     * The worker.
     *
     * @param client the client
     * @param properties the properties
     * @param beans the beans of the application
     * @param middleware wraps the handlers
     * @param listeners get the events of the worker
     * @return the worker
     */
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnProperty(name = "tidegate.worker.enabled", matchIfMissing = true)
    public TidegateWorker tidegateWorker(
            TidegateClient client,
            TidegateProperties properties,
            ListableBeanFactory beans,
            ObjectProvider<Middleware> middleware,
            ObjectProvider<WorkerListener> listeners) {
        return new TidegateWorker(
                client,
                properties.worker(),
                beans,
                middleware.orderedStream().toList(),
                listeners.orderedStream().toList());
    }
}
