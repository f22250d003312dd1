<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeImmutable;
use Generator;
use stdClass;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Pages;
use Tidegate\Http\Path;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;

/** The schedules of the namespace, which publish jobs at fixed times. Documents are as the server has written them. */
final class Schedules
{
    /** @internal */
    public function __construct(private readonly Sender $sender)
    {
    }

    /**
     * Creates a schedule, or replaces it as a whole. Needs the scopes `admin` and `publish`.
     *
     * @param array<string, mixed>|stdClass $config as of the server:
     *        `['queue' => 'digests', 'cron' => '0 9 * * MON-FRI', 'job' => ['payload' => 1]]`
     * @param string|null $ifRevision replaces only this `revision` of the schedule
     * @throws TidegateError `version_mismatch`
     */
    public function set(string $name, array|stdClass $config, ?string $ifRevision = null): stdClass
    {
        $request = Request::json('PUT', Path::schedule($name), (object) $config, true);
        return $this->sender->send(self::conditional($request, $ifRevision))->document();
    }

    /**
     * A schedule with its settings and its next run. Needs the scope `read`.
     *
     * @throws TidegateError `schedule_not_found`
     */
    public function show(string $name): stdClass
    {
        return $this->sender->send(Request::get(Path::schedule($name)))->document();
    }

    /**
     * All schedules by name, page by page. Needs the scope `read`.
     *
     * @return Generator<int, stdClass>
     * @throws TidegateError
     */
    public function all(): Generator
    {
        return Pages::read($this->sender, '/schedules');
    }

    /**
     * The times of the next runs. None if the schedule is paused or has ended. Needs the scope `read`.
     *
     * @param int $count the most times, 1 to 100
     * @return list<DateTimeImmutable>
     * @throws TidegateError `schedule_not_found`
     */
    public function nextRuns(string $name, int $count = 1): array
    {
        return array_map(Instant::parse(...), $this->nextRunsDocument($name, $count)->runs);
    }

    /**
     * The answer of the server to a question for the next runs.
     *
     * @throws TidegateError
     */
    public function nextRunsDocument(string $name, int $count = 1): stdClass
    {
        $path = Path::with(Path::schedule($name, '/next'), ['count' => $count]);
        return $this->sender->send(Request::get($path))->document();
    }

    /**
     * Deletes a schedule. Jobs that it has published stay. Needs the scope `admin`.
     *
     * @param string|null $ifRevision deletes only this `revision` of the schedule
     * @throws TidegateError `schedule_not_found`, also after a repetition of a request whose answer was lost
     */
    public function delete(string $name, ?string $ifRevision = null): stdClass
    {
        $request = new Request('DELETE', Path::schedule($name), isRepeatable: true);
        return $this->sender->send(self::conditional($request, $ifRevision))->document();
    }

    /** @throws InvalidRequestError */
    private static function conditional(Request $request, ?string $revision): Request
    {
        return $revision === null ? $request : $request->withHeaders(['If-Match' => "\"$revision\""]);
    }
}
