"""What Schemathesis cannot know about the API from its document."""

import os

import schemathesis

KEY = os.environ["TIDEGATE_SCHEMATHESIS_KEY"]
NAMESPACE = "shop"
QUEUES = ["emails", "bulk", "orders"]
LEASES_KEPT = 200

# Leases that the API has returned, so that some requests are about jobs that workers hold.
leases = []


def is_generated(case):
    """Whether a case is a valid one that was drawn at random; others are sent as they are."""
    meta = case.meta
    return meta is not None and meta.phase.name.value in ("fuzzing", "stateful") and meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, **kwargs):
    """Names become a few, so that requests meet. The key of these requests is not revoked."""
    path = case.path_parameters or {}
    if str(path.get("key")) in KEY:
        path["key"] = "another"
    if not is_generated(case):
        return
    path["namespace"] = NAMESPACE
    if "queue" in path:
        path["queue"] = QUEUES[len(path["queue"]) % len(QUEUES)]
    if case.operation.definition.raw["operationId"] == "publish":
        choose_options(case)
    if "wait" in (case.query or {}):
        case.query["wait"] = "20ms"
    if case.operation.definition.raw["operationId"] == "set_schedule" and isinstance(case.body, dict):
        change_schedule(case.body)
    if isinstance(case.body, dict):
        change_body(case.body)


# A job counts deliveries or failures.
EXCLUDED_BY_DELIVERIES = tuple((name, "max_deliveries") for name in ("max_attempts", "retry", "start_within"))


def remove(given, name):
    """Removes an option from the query or the headers that have it."""
    options = given.pop(name)
    options.pop(name, None)
    options.pop(header_name(name), None)


def choose_options(case):
    """Leaves out options that exclude each other: most publishes would be rejected for them."""
    query, headers = case.query or {}, case.headers or {}
    for name in list(query):
        headers.pop("Idempotency-Key" if name == "idempotency_key" else header_name(name), None)
    given = {name: query for name in query}
    for name in ("run_at", "delay", "key", "if_exists", "retry", "max_attempts", "start_within", "max_deliveries", "ttl"):
        if header_name(name) in headers:
            given[name] = headers
    for name, other in (("run_at", "delay"), ("max_attempts", "retry"), *EXCLUDED_BY_DELIVERIES):
        if name in given and other in given:
            remove(given, name)
    if "ttl" in given and "max_deliveries" not in given:
        remove(given, "ttl")
    if "if_exists" in given and "key" not in given:
        query["key"] = "order-17"
    if header_name("wait") in headers:
        headers[header_name("wait")] = "20ms"
    case.query, case.headers = query, headers


def header_name(option):
    return "Tidegate-" + "-".join(word.capitalize() for word in option.split("_"))


def change_schedule(schedule):
    """Times that exist and have few ticks, a queue as in paths, and a job without options that exclude each other."""
    schedule["queue"] = QUEUES[0]
    schedule["every"] = "1h"
    for name in ("cron", "time_zone", "ends_at"):
        schedule.pop(name, None)
    if isinstance(schedule.get("job"), dict):
        change_body(schedule["job"])


def change_body(body):
    """Queues as in paths, short waits, known leases, and jobs without options that exclude each other."""
    queues = body.get("queues")
    if isinstance(queues, list):
        body["queues"] = QUEUES[: len(queues)]
    if "wait" in body:
        body["wait"] = "20ms"
    items = body.get("leases")
    if isinstance(items, list):
        # A text that is no lease has all of them refused.
        if leases:
            del items[len(leases) :]
        for index, lease in enumerate(leases[: len(items)]):
            if isinstance(items[index], dict):
                items[index]["lease"] = lease
                if "result" in items[index]:
                    items[index].pop("result_base64", None)
            else:
                items[index] = lease
    jobs = body.get("jobs")
    for job in jobs if isinstance(jobs, list) else [body]:
        for name, other in (("run_at", "delay"), ("payload_base64", "payload"), ("max_attempts", "retry"), ("dead", "retry_in"), *EXCLUDED_BY_DELIVERIES):
            if job.get(name) is not None and job.get(other) is not None:
                del job[name]
        if job.get("ttl") is not None and job.get("max_deliveries") is None:
            del job["ttl"]
        if "if_exists" in job and job.get("key") is None:
            job["key"] = "order-17"


@schemathesis.hook
def after_call(context, case, response):
    """Remembers leases. The payload of a job may be JSON of any shape, to which the schema of the other format does not
    apply."""
    if "tidegate-job-id" in response.headers and response.status_code == 200:
        response.headers["content-type"] = ["application/octet-stream"]
    elif case.operation.path.endswith("/reserve") and response.status_code == 200:
        leases[:0] = [job["lease"] for job in response.json()["jobs"]]
        del leases[LEASES_KEPT:]
