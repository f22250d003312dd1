<?php

declare(strict_types=1);

namespace Tidegate\Worker;

use Closure;

/**
 * The signals of the process while a worker runs. Has no effect without the extension pcntl.
 *
 * @internal
 */
final class Signals
{
    /** @var array<int, callable|int> the handlers before */
    private array $before = [];
    private bool $wasAsync = false;
    private bool $isInstalled = false;
    /** When SIGALRM comes, by the clock of the system. */
    private float $alarmAt = INF;

    /**
     * @param Closure(): void|null $onStop is called by the first SIGTERM or SIGINT; the second one ends the process
     * @param Closure(): void|null $onAlarm is called by SIGALRM
     */
    public function __construct(
        private readonly ?Closure $onStop,
        private readonly ?Closure $onAlarm,
    ) {
    }

    public static function isAvailable(): bool
    {
        return function_exists('pcntl_async_signals') && function_exists('pcntl_alarm');
    }

    public function install(): void
    {
        if (!self::isAvailable()) {
            return;
        }
        $this->isInstalled = true;
        $this->wasAsync = pcntl_async_signals(true);
        if ($this->onStop !== null) {
            $this->set(SIGTERM, $this->stop(...));
            $this->set(SIGINT, $this->stop(...));
        }
        if ($this->onAlarm !== null) {
            $this->set(SIGALRM, $this->alarm(...));
        }
    }

    public function restore(): void
    {
        if (!$this->isInstalled) {
            return;
        }
        $this->isInstalled = false;
        if ($this->alarmAt < INF) {
            pcntl_alarm(0);
            $this->alarmAt = INF;
        }
        foreach ($this->before as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        $this->before = [];
        pcntl_async_signals($this->wasAsync);
    }

    /** Requests a SIGALRM in so many seconds, 1 at least, unless one comes earlier. */
    public function setAlarm(float $seconds): void
    {
        if (!$this->isInstalled || $this->onAlarm === null) {
            return;
        }
        $seconds = (int) max(1, min(floor($seconds), 3600));
        $at = hrtime(true) / 1e9 + $seconds;
        if ($at < $this->alarmAt) {
            $this->alarmAt = $at;
            pcntl_alarm($seconds);
        }
    }

    private function set(int $signal, Closure $handler): void
    {
        $this->before[$signal] = pcntl_signal_get_handler($signal);
        pcntl_signal($signal, $handler);
    }

    private function stop(int $signal): void
    {
        // The next signal ends the process as if nobody handled it.
        foreach ([SIGTERM, SIGINT] as $other) {
            pcntl_signal($other, SIG_DFL);
        }
        ($this->onStop)();
    }

    private function alarm(): void
    {
        $this->alarmAt = INF;
        ($this->onAlarm)();
    }
}
