<?php

declare(strict_types=1);

namespace Tidegate\Driver;

use ReflectionClass;
use Throwable;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Json;

/** Lines of JSON on the standard output. */
final class Output
{
    public static function write(mixed $value): void
    {
        $line = Json::encode($value) . "\n";
        while ($line !== '') {
            $written = fwrite(STDOUT, $line);
            if ($written === false) {
                return;
            }
            $line = substr($line, $written);
        }
        fflush(STDOUT);
    }

    /** @return array<string, mixed> */
    public static function error(Throwable $error): array
    {
        if (!$error instanceof TidegateError) {
            fwrite(STDERR, "$error\n");
            return ['class' => 'Unexpected', 'detail' => $error::class . ': ' . $error->getMessage()];
        }
        return array_filter([
            'class' => (new ReflectionClass($error))->getShortName(),
            'status' => $error->status,
            'code' => $error->problemCode,
            'detail' => $error->detail,
            'applied' => $error->applied->value,
            'field' => $error->field,
            'retry_after_ms' => $error->retryAfter?->ms,
        ], static fn (mixed $value): bool => $value !== null);
    }
}
