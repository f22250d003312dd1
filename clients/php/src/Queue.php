<?php

declare(strict_types=1);

namespace Tidegate;

use Generator;
use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Pages;
use Tidegate\Http\Path;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;

/** A queue of the namespace. Documents are as the server has written them. */
final class Queue
{
    /** @internal */
    public function __construct(
        private readonly Sender $sender,
        public readonly string $name,
    ) {
    }

    /** A job by its id. Sends nothing. */
    public function job(string $id): JobHandle
    {
        return new JobHandle($this->sender, fn (string $rest): string => Path::job($this->name, $id, $rest));
    }

    /** A job by its key. Sends nothing. */
    public function jobWithKey(string $key): JobHandle
    {
        return new JobHandle($this->sender, fn (string $rest): string => Path::jobWithKey($this->name, $key, $rest));
    }

    /**
     * The numbers of jobs by state, and whether the queue is paused or closed. Needs the scope `read`.
     *
     * @throws TidegateError
     */
    public function counts(): stdClass
    {
        return $this->sender->send(Request::get(Path::queue($this->name)))->document();
    }

    /**
     * The policy of the queue. Needs the scope `read`.
     *
     * @throws TidegateError
     */
    public function policy(): stdClass
    {
        return $this->sender->send(Request::get(Path::queue($this->name, '/policy')))->document();
    }

    /**
     * Changes the policy; fields that are not given stay as they are, `null` is a default. Needs the scope `admin`.
     *
     * @param array<string, mixed>|stdClass $change as of the server:
     *        `['retry' => ['every' => '30s'], 'max_jobs' => 1000]`
     * @return stdClass the new policy, which is in effect everywhere within a second
     * @throws TidegateError
     */
    public function setPolicy(array|stdClass $change): stdClass
    {
        $path = Path::queue($this->name, '/policy');
        return $this->sender->send(Request::json('PATCH', $path, (object) $change, true))->document();
    }

    /**
     * Deletes all jobs that are ready, or all that are dead. Needs the scope `admin`.
     *
     * @param string $state `ready` or `dead`
     * @return int how many
     * @throws TidegateError after an error some jobs may be deleted
     */
    public function purge(string $state): int
    {
        $path = Path::queue($this->name, '/purge');
        return $this->sender->send(Request::json('POST', $path, ['state' => $state], false))->document()->deleted;
    }

    /**
     * Brings dead jobs back, oldest first, with all their attempts. Needs the scope `admin`.
     *
     * @param int|null $limit the most jobs
     * @param int|null $ratePerSecond how many become due each second; by default all are ready at once
     * @return int how many
     * @throws TidegateError after an error some jobs may be back
     */
    public function respawn(?int $limit = null, ?int $ratePerSecond = null): int
    {
        $body = array_filter(
            ['limit' => $limit, 'rate_per_second' => $ratePerSecond],
            static fn (?int $value): bool => $value !== null,
        );
        $request = Request::json('POST', Path::queue($this->name, '/respawn'), (object) $body, false);
        return $this->sender->send($request)->document()->respawned;
    }

    /**
     * Deletes the queue with its policy. Needs the scope `admin`.
     *
     * @throws TidegateError `queue_not_empty`
     */
    public function delete(): stdClass
    {
        return $this->sender->send(new Request('DELETE', Path::queue($this->name), isRepeatable: true))->document();
    }

    /**
     * The jobs that match a filter, page by page. Needs the scope `read`.
     *
     * @param int $pageSize the most jobs of a request, 1 to 1,000
     * @return Generator<int, stdClass>
     * @throws TidegateError
     */
    public function jobs(?JobFilter $filter = null, int $pageSize = 100): Generator
    {
        $parameters = ['limit' => $pageSize, ...($filter?->fields() ?? [])];
        return Pages::read($this->sender, Path::queue($this->name, '/jobs'), $parameters);
    }

    /**
     * Acts on all jobs that match a filter. Takes a request for each 100 jobs. Needs the scope `admin`.
     *
     * @param string $action `cancel`, `promote`, `change`, `respawn` or `purge`
     * @param IfRunning|null $running of `cancel`: the rule for jobs that workers hold
     * @param JobChange|null $change of `change`
     * @param int|null $ratePerSecond of `respawn`: how many jobs become due each second
     * @param bool $dryRun whether jobs are only counted
     * @return array{matched: int, changed: int}
     * @throws TidegateError after an error some jobs may be changed; a repeated call finds the others
     */
    public function act(
        string $action,
        ?JobFilter $filter = null,
        ?IfRunning $running = null,
        ?JobChange $change = null,
        ?int $ratePerSecond = null,
        bool $dryRun = false,
        int $pageSize = 100,
    ): array {
        $body = array_filter([
            'do' => $action,
            'filter' => (object) ($filter?->fields() ?? []),
            'running' => $running?->value,
            'change' => $change?->toWire(),
            'rate_per_second' => $ratePerSecond,
            'dry_run' => $dryRun ?: null,
            'limit' => $pageSize,
        ], static fn (mixed $value): bool => $value !== null);
        $total = ['matched' => 0, 'changed' => 0];
        $path = Path::queue($this->name, '/jobs/act');
        do {
            $answer = $this->sender->send(Request::json('POST', $path, (object) $body, true))->document();
            $total['matched'] += $answer->matched;
            $total['changed'] += $answer->changed;
            $body['cursor'] = $answer->next;
            if ($answer->wait_ms > 0 && $answer->next !== null) {
                $this->sender->loop->sleep($answer->wait_ms / 1000);
            }
        } while ($answer->next !== null);
        return $total;
    }
}
