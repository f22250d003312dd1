/** A client and a worker for Tidegate, a delay-queue service over Redis. */
module io.tidegate.client {
    requires java.net.http;
    requires transitive com.fasterxml.jackson.databind;

    exports io.tidegate;
    exports io.tidegate.error;
    exports io.tidegate.model;
    exports io.tidegate.testing;
    exports io.tidegate.worker;

    opens io.tidegate to
            com.fasterxml.jackson.databind;
    opens io.tidegate.internal to
            com.fasterxml.jackson.databind;
    opens io.tidegate.worker to
            com.fasterxml.jackson.databind;
    opens io.tidegate.model to
            com.fasterxml.jackson.databind;
}
