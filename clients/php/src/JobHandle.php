<?php

declare(strict_types=1);

namespace Tidegate;

use Closure;
use DateInterval;
use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Path;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;
use Tidegate\Publish\Results;

/** A job of a queue, by its id or its key. Documents are as the server has written them. */
final class JobHandle
{
    /**
     * @internal
     *
     * @param Closure(string): string $path makes a path that ends with the argument
     */
    public function __construct(
        private readonly Sender $sender,
        private readonly Closure $path,
    ) {
    }

    /**
     * All about the job, except its payload. A job by its id needs the scope `read`.
     *
     * @throws TidegateError
     */
    public function show(): stdClass
    {
        return $this->sender->send(Request::get(($this->path)('')))->document();
    }

    /**
     * Why the job is not delivered now: `cause`, `summary` and `facts`. Needs the scope `read`.
     *
     * @throws TidegateError
     */
    public function explain(): stdClass
    {
        return $this->sender->send(Request::get(($this->path)('/explain')))->document();
    }

    /**
     * The payload with its content type. Needs the scope `read`.
     *
     * @throws TidegateError
     */
    public function payload(): JobResult
    {
        $answer = $this->sender->send(Request::get(($this->path)('/payload')));
        return new JobResult($answer->body, $answer->header('content-type') ?? '');
    }

    /**
     * The result of the job; `null` if it has not ended within the time. Needs the scope `read`.
     *
     * @param Duration|DateInterval|null $wait by default no wait; a wait of more than 20 s takes several requests
     * @throws TidegateError `job_dead`; `job_not_found` if the job was cancelled or is kept no longer
     */
    public function result(Duration|DateInterval|null $wait = null): ?JobResult
    {
        $wait = Duration::from($wait ?? Duration::milliseconds(0));
        return (new Results($this->sender))->fetch(($this->path)('/result'), $wait);
    }

    /**
     * Changes when a job that waits is due, its `startWithin`, or its priority.
     *
     * @throws TidegateError `job_not_found`, `job_running`, `job_dead`
     */
    public function change(JobChange $change): stdClass
    {
        $request = Request::json('PATCH', ($this->path)(''), $change->toWire(), true);
        return $this->sender->send($request)->document();
    }

    /**
     * Makes a delayed job ready now.
     *
     * @throws TidegateError `job_not_found`, `job_running`, `job_dead`
     */
    public function promote(): stdClass
    {
        return $this->sender->send(new Request('POST', ($this->path)('/promote'), isRepeatable: true))->document();
    }

    /**
     * Deletes the job. The outcome is `cancelled`, `cancel_requested`, `revoked` or `already_done`.
     *
     * @throws TidegateError `job_not_found`, also after a repetition of a request whose answer was lost; `job_running`
     */
    public function cancel(IfRunning $running = IfRunning::Refuse): stdClass
    {
        $path = ($this->path)('');
        if ($running !== IfRunning::Refuse) {
            $path = Path::with($path, ['running' => $running->value]);
        }
        return $this->sender->send(new Request('DELETE', $path, isRepeatable: true))->document();
    }
}
