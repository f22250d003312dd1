<?php

declare(strict_types=1);

namespace Tidegate\Driver;

use stdClass;
use Throwable;
use Tidegate\Client;
use Tidegate\Http\Json;

/** Reads commands from the standard input, runs them at the same time, and writes their answers. */
final class Driver
{
    /** How often the standard input is looked at, in seconds. */
    private const POLL_SECONDS = 0.005;
    private const READ_BYTES = 1 << 16;

    private readonly Client $client;
    private readonly Commands $commands;
    private readonly Work $work;
    private string $buffer = '';
    private bool $isClosed = false;
    private float $polledAt = 0.0;

    public function __construct()
    {
        $this->client = new Client();
        $this->commands = new Commands($this->client);
        $this->work = new Work($this->client);
    }

    public function run(): int
    {
        stream_set_blocking(STDIN, false);
        $loop = $this->client->sender()->loop;
        $loop->addBackground($this->poll(...));
        $loop->runUntil(fn (): bool => $this->isClosed || $this->work->wasStoppedBySignal());
        return 0;
    }

    private function poll(float $now): float
    {
        if ($now - $this->polledAt >= self::POLL_SECONDS) {
            $this->polledAt = $now;
            $this->read();
        }
        return self::POLL_SECONDS;
    }

    private function read(): void
    {
        while (($text = fread(STDIN, self::READ_BYTES)) !== false && $text !== '') {
            $this->buffer .= $text;
        }
        $this->isClosed = feof(STDIN);
        $lines = explode("\n", $this->buffer);
        $this->buffer = array_pop($lines);
        foreach ($lines as $line) {
            if (trim($line) !== '') {
                $this->start(Json::decode($line, false));
            }
        }
    }

    private function start(stdClass $command): void
    {
        $this->client->sender()->loop->spawn(function () use ($command): void {
            try {
                $ok = match ($command->do) {
                    'work' => $this->work->start($command),
                    'stop' => $this->work->stop($command),
                    'end' => exit(9),
                    default => $this->commands->run($command),
                };
                Output::write(['id' => $command->id, 'ok' => $ok]);
            } catch (Throwable $error) {
                Output::write(['id' => $command->id, 'error' => Output::error($error)]);
            }
        });
    }
}
