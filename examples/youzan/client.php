<?php
/**
 * A client of the paths of ouqiang/delay-queue, written from docs/youzan.md, with PHP alone.
 *
 *     php client.php http://127.0.0.1:7790 [TOKEN]
 *
 * runs a session with each path and prints "ok".
 */

declare(strict_types=1);

/** The server has not carried out the command. */
class CommandFailed extends Exception
{
}

/** Sends commands. The id of a job is unique among all topics. */
class DelayQueue
{
    // A pop without a timeout waits for up to 178 s.
    private const HTTP_TIMEOUT_S = 190;

    private string $url;
    private string $headers = "Content-Type: application/json\r\n";

    public function __construct(string $url, string $token = '')
    {
        $this->url = rtrim($url, '/');
        if ($token !== '') {
            $this->headers .= "Authorization: Bearer $token\r\n";
        }
    }

    /** Adds a job that is ready in $delay seconds, or replaces the one with this id. */
    public function push(string $topic, string $id, string $body, int $delay = 0, int $ttr = 60): void
    {
        $this->send('/push', compact('topic', 'id', 'delay', 'ttr', 'body'));
    }

    /** Reserves a job for its TTR. Returns its id and body; null if none came in time. */
    public function pop(array $topics, ?int $timeout = null): ?array
    {
        $fields = ['topic' => implode(',', $topics)];
        return $this->send('/pop', $timeout === null ? $fields : $fields + ['timeout' => $timeout]);
    }

    /** Shows a job; null if there is none. */
    public function get(string $id): ?array
    {
        return $this->send('/get', ['id' => $id]);
    }

    /** Ends a job that is done. May be repeated. */
    public function finish(string $id): void
    {
        $this->send('/finish', ['id' => $id]);
    }

    /** Deletes a job in any state. May be repeated. */
    public function delete(string $id): void
    {
        $this->send('/delete', ['id' => $id]);
    }

    private function send(string $path, array $fields): ?array
    {
        $http = [
            'method' => 'POST',
            'header' => $this->headers,
            'content' => json_encode($fields, JSON_THROW_ON_ERROR),
            'timeout' => self::HTTP_TIMEOUT_S,
        ];
        $text = file_get_contents($this->url . $path, false, stream_context_create(['http' => $http]));
        if ($text === false) {
            throw new CommandFailed('no answer');
        }
        $answer = json_decode($text, true, 16, JSON_THROW_ON_ERROR);
        if ($answer['code'] !== 0) {
            throw new CommandFailed($answer['message']);
        }
        return $answer['data'];
    }
}

/** Every path once. Fails if an answer is not the expected one. */
function session(DelayQueue $queue): void
{
    $expect = function ($found, $expected): void {
        if ($found !== $expected) {
            throw new Exception(var_export($found, true) . ' instead of ' . var_export($expected, true));
        }
    };
    $topic = 'php-orders';
    $queue->push($topic, 'php-1', '{"order":1}', 2, 30);
    $queue->push($topic, 'php-2', 'never', 3600);
    $shown = $queue->get('php-2');
    $due = $shown['delay'];
    unset($shown['delay']);
    $expect($shown, ['topic' => $topic, 'id' => 'php-2', 'ttr' => 60, 'body' => 'never']);
    $expect(abs($due - time() - 3600) < 600, true);
    $queue->delete('php-2');
    $expect($queue->get('php-2'), null);
    $expect($queue->pop([$topic], 0), null);
    $expect($queue->pop([$topic, 'php-bills'], 60), ['id' => 'php-1', 'body' => '{"order":1}']);
    $queue->finish('php-1');
    $queue->finish('php-1');
    $queue->push($topic, 'php-3', 'old', 0, 30);
    $queue->push($topic, 'php-3', 'new: ü', 0, 1);
    $expect($queue->pop([$topic], 60), ['id' => 'php-3', 'body' => 'new: ü']);
    // It is not finished within its TTR.
    $expect($queue->pop([$topic], 60), ['id' => 'php-3', 'body' => 'new: ü']);
    $queue->finish('php-3');
    try {
        $queue->push('not,a,topic', 'php-4', '');
    } catch (CommandFailed $error) {
        $expect(str_contains($error->getMessage(), 'topic'), true);
        return;
    }
    throw new Exception('a bad topic was accepted');
}

session(new DelayQueue($argv[1], $argv[2] ?? ''));
echo "ok\n";
