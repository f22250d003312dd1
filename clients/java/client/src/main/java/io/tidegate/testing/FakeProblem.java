package io.tidegate.testing;

/** A request that the fake refuses. */
final class FakeProblem extends Exception {
    private final int status;
    private final String code;

    FakeProblem(int status, String code, String detail) {
        super(detail);
        this.status = status;
        this.code = code;
    }

    int status() {
        return status;
    }

    String code() {
        return code;
    }

    static FakeProblem notFound() {
        return new FakeProblem(404, "job_not_found", "The queue has no job with this id or key.");
    }
}
