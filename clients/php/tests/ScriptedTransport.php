<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use Tidegate\Http\Answer;
use Tidegate\Http\Json;
use Tidegate\Http\Request;
use Tidegate\Http\Transport;
use Tidegate\Loop\Future;
use Throwable;

/** Answers requests from a list. An answer is there some ticks after its request. */
final class ScriptedTransport implements Transport
{
    /** @var list<Request> */
    public array $requests = [];
    /** @var list<float> when each request was sent */
    public array $times = [];
    /** After how many ticks an answer is there. */
    public int $ticks = 1;
    /** How many requests were cut. */
    public int $cut = 0;
    /** @var list<Answer|Throwable> */
    private array $answers;
    /** @var list<array{Future, Answer|Throwable, int}> with the ticks that are left */
    private array $inFlight = [];

    public function __construct(private readonly TestClock $clock, Answer|Throwable ...$answers)
    {
        $this->answers = $answers;
    }

    /** @param array<string, string> $headers */
    public static function json(int $status, mixed $body, array $headers = []): Answer
    {
        return new Answer($status, $headers, Json::encode($body));
    }

    /** @param array<string, string> $headers */
    public static function problem(int $status, string $code, ?string $applied, array $headers = []): Answer
    {
        $document = ['status' => $status, 'code' => $code, 'detail' => "about $code"];
        return self::json($status, $applied === null ? $document : [...$document, 'applied' => $applied], $headers);
    }

    public function start(Request $request, float $timeLimit): Future
    {
        $this->requests[] = $request;
        $this->times[] = $this->clock->now;
        $future = new Future(function (): void {
            $this->cut++;
        });
        $this->inFlight[] = [$future, array_shift($this->answers), $this->ticks];
        return $future;
    }

    public function exchange(Request $request, float $timeLimit): Answer
    {
        $this->requests[] = $request;
        $answer = array_shift($this->answers);
        return $answer instanceof Answer ? $answer : throw $answer;
    }

    public function tick(float $seconds): void
    {
        if ($this->inFlight === []) {
            // A timer may be due a little later than the sum of the waits by the errors of floats.
            $this->clock->now += $seconds + 1e-9;
            return;
        }
        [$inFlight, $this->inFlight] = [$this->inFlight, []];
        foreach ($inFlight as [$future, $answer, $left]) {
            if ($left > 1) {
                $future->isDone() ?: $this->inFlight[] = [$future, $answer, $left - 1];
                continue;
            }
            $answer instanceof Answer ? $future->complete($answer) : $future->fail($answer);
        }
    }
}
