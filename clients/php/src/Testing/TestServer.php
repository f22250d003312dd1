<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use RuntimeException;
use stdClass;
use Tidegate\Client;
use Tidegate\Http\Json;

/**
 * A real server on this machine for tests: `tidegate dev --json` on free ports. It is stopped when the object is
 * destroyed, and at the end of the process.
 */
final class TestServer
{
    private const READY_SECONDS = 30.0;
    private const STOP_SECONDS = 10.0;

    /** @var resource|null */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];
    /** @var resource a file, which never blocks the server */
    private $log;
    private readonly stdClass $info;

    /**
     * Starts a server, and waits until it serves.
     *
     * @param string|null $program the path of `tidegate`; default: the variable TIDEGATE_PROGRAM, or `tidegate` in
     *        PATH. It needs a Redis or Valkey in PATH, or the variable TG_REDIS_SERVER.
     * @throws RuntimeException if the server does not start within 30 s
     */
    public static function start(?string $program = null): self
    {
        $variable = getenv('TIDEGATE_PROGRAM');
        return new self($program ?? ($variable === false || $variable === '' ? 'tidegate' : $variable));
    }

    private function __construct(string $program)
    {
        $ports = [self::freePort(), self::freePort()];
        $command = [$program, 'dev', '--json', '--port', (string) $ports[0], '--admin-port', (string) $ports[1]];
        // The variables of clients are not meant for the server.
        $environment = array_filter(
            getenv(),
            static fn (string $name): bool => !str_starts_with($name, 'TIDEGATE_') && $name !== 'TG_URL',
            ARRAY_FILTER_USE_KEY,
        );
        $this->log = tmpfile();
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], $this->log];
        $process = @proc_open($command, $streams, $this->pipes, null, $environment);
        if ($process === false) {
            throw new RuntimeException("failed to start $program: give its path, or set TIDEGATE_PROGRAM");
        }
        $this->process = $process;
        stream_set_blocking($this->pipes[1], false);
        $this->info = $this->awaitReady($program);
    }

    public function __destruct()
    {
        $this->stop();
    }

    /** The URL of the server. */
    public function url(): string
    {
        return $this->info->url;
    }

    /** An API key with all scopes for {@see TestServer::namespace()}. */
    public function key(): string
    {
        return $this->info->key;
    }

    public function namespace(): string
    {
        return $this->info->namespace;
    }

    /** A client of the server. */
    public function client(): Client
    {
        return new Client($this->url(), $this->key(), $this->namespace());
    }

    /** Stops the server, and waits for its end. */
    public function stop(): void
    {
        if ($this->process === null) {
            return;
        }
        $process = $this->process;
        $this->process = null;
        proc_terminate($process);
        $until = hrtime(true) / 1e9 + self::STOP_SECONDS;
        while (proc_get_status($process)['running']) {
            if (hrtime(true) / 1e9 > $until) {
                proc_terminate($process, 9);
                break;
            }
            usleep(10_000);
        }
        array_map(fclose(...), $this->pipes);
        proc_close($process);
    }

    private function awaitReady(string $program): stdClass
    {
        $until = hrtime(true) / 1e9 + self::READY_SECONDS;
        $line = '';
        while (hrtime(true) / 1e9 < $until) {
            $line .= (string) stream_get_contents($this->pipes[1]);
            if (str_contains($line, "\n")) {
                return Json::decode($line, false);
            }
            if (!proc_get_status($this->process)['running']) {
                break;
            }
            usleep(10_000);
        }
        $this->stop();
        $log = (string) stream_get_contents($this->log, null, 0);
        $remedy = 'give its path, or set TIDEGATE_PROGRAM';
        throw new RuntimeException("$program did not start: $remedy; the end of its log:\n" . substr($log, -2000));
    }

    private static function freePort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        if ($socket === false) {
            throw new RuntimeException('there is no free port');
        }
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        return (int) substr($name, strrpos($name, ':') + 1);
    }
}
