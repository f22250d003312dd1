package io.tidegate.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.tidegate.TidegateClient;
import io.tidegate.testing.FakeTidegate;
import io.tidegate.worker.Job;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

class TidegateAutoConfigurationTest {
    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(TidegateAutoConfiguration.class));

    record Mail(String to) {}

    static class Mails {
        @TidegateHandler("mails")
        String send(Mail mail, Job job) {
            return mail.to() + " in attempt " + job.attempt();
        }

        @TidegateHandler("ticks")
        void tick() {}
    }

    static class WrongMails {
        @TidegateHandler("mails")
        void send(Mail mail, String other) {}
    }

    @Configuration(proxyBeanMethods = false)
    static class Application {
        @Bean
        FakeTidegate tidegate() {
            return new FakeTidegate();
        }

        @Bean
        TidegateClient client(FakeTidegate tidegate) {
            return tidegate.client();
        }

        @Bean
        Mails mails() {
            return new Mails();
        }
    }

    @Test
    void handlersOfBeansRun() {
        application.withUserConfiguration(Application.class).run(context -> {
            assertThat(context.getBean(TidegateWorker.class).isRunning()).isTrue();
            TidegateClient client = context.getBean(TidegateClient.class);
            String result = client.publish("mails", new Mail("ann"))
                    .retain(Duration.ofHours(1))
                    .call(Duration.ofSeconds(10))
                    .as(String.class);
            assertThat(result).isEqualTo("ann in attempt 1");
            assertThat(client.publish("ticks", 1).retain(Duration.ofHours(1)).call(Duration.ofSeconds(10)).isPending())
                    .isFalse();
        });
    }

    @Test
    void theClientIsMadeFromProperties() {
        application
                .withPropertyValues("tidegate.url=http://127.0.0.1:1", "tidegate.key=k", "tidegate.namespace=shop")
                .run(context -> {
                    assertThat(context).hasSingleBean(TidegateClient.class);
                    assertThat(context.getBean(TidegateWorker.class).isRunning()).isFalse();
                });
    }

    @Test
    void theWorkerCanBeSwitchedOff() {
        application
                .withUserConfiguration(Application.class)
                .withPropertyValues("tidegate.worker.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean(TidegateWorker.class));
    }

    @Test
    void wrongPropertiesAndHandlersAreNamed() {
        application
                .withPropertyValues("tidegate.url=127.0.0.1", "tidegate.key=k", "tidegate.namespace=shop")
                .run(context -> assertThat(context.getStartupFailure())
                        .rootCause()
                        .hasMessageContaining("the URL names no server"));
        application
                .withUserConfiguration(Application.class)
                .withBean(WrongMails.class)
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining("the parameters of a handler are the payload, and then the Job"));
    }
}
