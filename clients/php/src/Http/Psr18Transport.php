<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Psr\Http\Client\ClientExceptionInterface;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestFactoryInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Tidegate\Applied;
use Tidegate\Errors\ConnectionError;
use Tidegate\Loop\Future;

/**
 * Sends requests with any client of PSR-18, one after the other.
 *
 * The time limits are those of that client: set them to more than the longest wait. It must not repeat requests. A
 * worker with this transport extends leases and reports jobs only between its requests, and a stop waits for the answer
 * to its request for jobs.
 */
final class Psr18Transport implements Transport
{
    public function __construct(
        private readonly ClientInterface $client,
        private readonly RequestFactoryInterface $requests,
        private readonly StreamFactoryInterface $streams,
    ) {
    }

    public function start(Request $request, float $timeLimit): Future
    {
        $future = new Future();
        try {
            $future->complete($this->exchange($request, $timeLimit));
        } catch (ConnectionError $error) {
            $future->fail($error);
        }
        return $future;
    }

    public function exchange(Request $request, float $timeLimit): Answer
    {
        $message = $this->requests->createRequest($request->method, $request->target);
        foreach ($request->headers as $name => $value) {
            $message = $message->withHeader($name, $value);
        }
        if ($request->body !== '') {
            $message = $message->withBody($this->streams->createStream($request->body));
        }
        try {
            $response = $this->client->sendRequest($message);
        } catch (ClientExceptionInterface $error) {
            // No class of PSR-18 says that nothing was sent: Guzzle, for one, reports broken connections with each.
            throw new ConnectionError($error->getMessage(), Applied::Unknown, previous: $error);
        }
        $headers = GuzzleTransport::headers($response);
        return new Answer($response->getStatusCode(), $headers, (string) $response->getBody());
    }

    public function tick(float $seconds): void
    {
        if ($seconds > 0.0) {
            usleep((int) ceil($seconds * 1e6));
        }
    }
}
