<?php

declare(strict_types=1);

namespace Tidegate;

use Closure;
use OpenTelemetry\API\Globals;
use OpenTelemetry\API\Trace\Propagation\TraceContextPropagator;
use OpenTelemetry\API\Trace\SpanKind;
use OpenTelemetry\API\Trace\StatusCode;
use Throwable;
use Tidegate\Worker\Job;

/**
 * Traces from the publisher to the handler, if the API of OpenTelemetry is present.
 *
 * @internal
 */
final class Traces
{
    private static ?bool $isPresent = null;

    /** The `traceparent` of the running span; `null` if there is none, or it is not sampled. */
    public static function current(): ?string
    {
        if (!self::isPresent()) {
            return null;
        }
        $carrier = [];
        TraceContextPropagator::getInstance()->inject($carrier);
        $traceParent = $carrier['traceparent'] ?? null;
        // The last bit of the flags says that the span is sampled.
        return $traceParent !== null && (hexdec(substr($traceParent, -2)) & 1) === 1 ? $traceParent : null;
    }

    /**
     * Runs a handler in a span. Its parent is the delivery if the server traces it, else the span of the publisher.
     *
     * @param Closure(Job): mixed $handler
     */
    public static function run(Job $job, Closure $handler): mixed
    {
        if (!self::isPresent()) {
            return $handler($job);
        }
        $carrier = ['traceparent' => $job->deliverySpan ?? $job->attributes['traceparent'] ?? ''];
        $span = Globals::tracerProvider()->getTracer('tidegate')->spanBuilder('process ' . $job->queue)
            ->setParent(TraceContextPropagator::getInstance()->extract($carrier))
            ->setSpanKind(SpanKind::KIND_CONSUMER)
            ->setAttribute('messaging.system', 'tidegate')
            ->setAttribute('messaging.operation.type', 'process')
            ->setAttribute('messaging.destination.name', $job->queue)
            ->setAttribute('messaging.message.id', $job->id)
            ->startSpan();
        $scope = $span->activate();
        try {
            return $handler($job);
        } catch (Throwable $error) {
            $span->recordException($error);
            $span->setStatus(StatusCode::STATUS_ERROR);
            throw $error;
        } finally {
            $scope->detach();
            $span->end();
        }
    }

    private static function isPresent(): bool
    {
        return self::$isPresent ??= class_exists(TraceContextPropagator::class) && class_exists(Globals::class);
    }
}
