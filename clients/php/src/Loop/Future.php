<?php

declare(strict_types=1);

namespace Tidegate\Loop;

use Closure;
use LogicException;
use Throwable;

/** A value that is there later, or an error instead. */
final class Future
{
    private bool $isDone = false;
    private mixed $value = null;
    private ?Throwable $error = null;
    /** @var list<Closure(): void> */
    private array $callbacks = [];

    /** @param Closure(): mixed|null $cancel ends the work for the value */
    public function __construct(private ?Closure $cancel = null)
    {
    }

    public function isDone(): bool
    {
        return $this->isDone;
    }

    /** Sets the value. Has no effect if the future is done. */
    public function complete(mixed $value): void
    {
        $this->finish($value, null);
    }

    /** Sets the error. Has no effect if the future is done. */
    public function fail(Throwable $error): void
    {
        $this->finish(null, $error);
    }

    /** Ends the work, with this error as the result. */
    public function cancel(Throwable $error): void
    {
        if (!$this->isDone) {
            $cancel = $this->cancel;
            $this->finish(null, $error);
            $cancel === null ?: $cancel();
        }
    }

    /** @param Closure(): void $callback is called when the future is done; now if it is already */
    public function whenDone(Closure $callback): void
    {
        if ($this->isDone) {
            $callback();
        } else {
            $this->callbacks[] = $callback;
        }
    }

    /** Returns the value, or throws the error. */
    public function get(): mixed
    {
        if (!$this->isDone) {
            throw new LogicException('the future is not done');
        }
        return $this->error === null ? $this->value : throw $this->error;
    }

    private function finish(mixed $value, ?Throwable $error): void
    {
        if ($this->isDone) {
            return;
        }
        $this->isDone = true;
        $this->value = $value;
        $this->error = $error;
        $callbacks = $this->callbacks;
        $this->callbacks = [];
        $this->cancel = null;
        foreach ($callbacks as $callback) {
            $callback();
        }
    }
}
