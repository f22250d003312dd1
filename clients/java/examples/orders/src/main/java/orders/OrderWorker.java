package orders;

import io.tidegate.TidegateClient;
import io.tidegate.worker.*;
import java.time.Duration;

/** Closes orders that are not paid, and sends mails, until SIGTERM. */
public class OrderWorker {
    record Order(long order, int pages) {}

    record Mail(String to) {}

    public static void main(String[] arguments) {
        try (TidegateClient client = TidegateClient.connect()) {
            Worker.builder(client)
                    .handle("close-unpaid", Order.class, OrderWorker::close)
                    .handle("mails", Mail.class, OrderWorker::send)
                    .grace(Duration.ofSeconds(20))
                    .build()
                    .run();
        }
    }

    static void close(Order order, Job job) throws InterruptedException {
        for (int page = 0; page < order.pages(); page++) {
            Thread.sleep(1_000); // A cancel of the job interrupts it.
        }
        System.out.println("closed " + order.order() + " in attempt " + job.attempt());
    }

    static void send(Mail mail, Job job) {
        if (!mail.to().contains("@")) {
            throw new Dead("no address: " + mail.to());
        }
        if (job.attempt() == 1) {
            throw new RetryIn("the provider is busy", Duration.ofSeconds(30));
        }
    }
}
