package orders;

import io.tidegate.TidegateClient;
import java.time.Duration;
import java.util.Map;

/** Places an order, and pays it. */
public class OrderPublisher {
    public static void main(String[] arguments) {
        try (TidegateClient client = TidegateClient.connect()) {
            var order = Map.of("order", 17, "pages", 3);
            client.publish("close-unpaid", order).key("order-17").delay(Duration.ofMinutes(30)).send();
            client.queue("close-unpaid").jobWithKey("order-17").cancel(); // It is paid.
        }
    }
}
