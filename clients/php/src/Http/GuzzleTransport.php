<?php

declare(strict_types=1);

namespace Tidegate\Http;

use GuzzleHttp\Exception\RequestException;
use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Handler\CurlHandler;
use GuzzleHttp\Handler\CurlMultiHandler;
use GuzzleHttp\Promise\PromiseInterface;
use GuzzleHttp\Promise\Utils;
use GuzzleHttp\Psr7\Request as PsrRequest;
use Psr\Http\Message\ResponseInterface;
use Throwable;
use Tidegate\Applied;
use Tidegate\Errors\ConnectionError;
use Tidegate\Loop\Future;

/** Sends requests with the cURL handler of Guzzle. Many requests are in flight at the same time on kept connections. */
final class GuzzleTransport implements Transport
{
    /** How long one look for answers may take, in seconds. An answer or a signal ends it earlier. */
    private const SELECT_SECONDS = 0.02;
    private const CONNECT_SECONDS = 5.0;
    /** The errors of cURL after which surely nothing was sent: no connection, or no TLS. */
    private const NOT_SENT = [
        CURLE_COULDNT_RESOLVE_PROXY,
        CURLE_COULDNT_RESOLVE_HOST,
        CURLE_COULDNT_CONNECT,
        CURLE_SSL_CONNECT_ERROR,
        CURLE_SSL_PEER_CERTIFICATE,
        CURLE_SSL_CACERT,
    ];

    private readonly CurlMultiHandler $multi;
    private ?CurlHandler $single = null;
    /** The requests in flight. */
    private int $active = 0;
    /** The requests in flight that the server answers without a wait. */
    private int $prompt = 0;

    /** @param array<string, mixed> $options of Guzzle for each request, such as `verify`, `cert`, `proxy` or `curl` */
    public function __construct(private readonly array $options = [])
    {
        $this->multi = new CurlMultiHandler(['select_timeout' => self::SELECT_SECONDS]);
    }

    public function start(Request $request, float $timeLimit): Future
    {
        $promise = ($this->multi)(self::psr($request), $this->optionsOf($request, $timeLimit));
        $isPrompt = $request->wait <= 0.0;
        $this->active++;
        $this->prompt += $isPrompt ? 1 : 0;
        $future = new Future($promise->cancel(...));
        $future->whenDone(function () use ($isPrompt): void {
            $this->active--;
            $this->prompt -= $isPrompt ? 1 : 0;
        });
        $this->connect($promise, $future, $timeLimit);
        return $future;
    }

    private function connect(PromiseInterface $promise, Future $future, float $timeLimit): void
    {
        $promise->then(
            static fn (ResponseInterface $response) => $future->complete(self::answer($response)),
            static fn (mixed $error) => $future->fail(self::error($error, $timeLimit)),
        );
    }

    public function exchange(Request $request, float $timeLimit): Answer
    {
        $this->single ??= new CurlHandler();
        try {
            $response = ($this->single)(self::psr($request), $this->optionsOf($request, $timeLimit))->wait();
        } catch (Throwable $error) {
            throw self::error($error, $timeLimit);
        }
        return self::answer($response);
    }

    public function tick(float $seconds): void
    {
        if ($this->active === 0) {
            if ($seconds > 0.0) {
                usleep((int) ceil($seconds * 1e6));
            }
            return;
        }
        // A look at requests that wait for jobs would take its whole time.
        if ($seconds > 0.0 || $this->prompt > 0) {
            $this->multi->tick();
            Utils::queue()->run();
        }
    }

    private static function psr(Request $request): PsrRequest
    {
        return new PsrRequest($request->method, $request->target, $request->headers, $request->body);
    }

    /** @return array<string, mixed> */
    private function optionsOf(Request $request, float $timeLimit): array
    {
        // A body that is one text has a length, and can be sent again by cURL. Without CURLOPT_NOSIGNAL cURL may use
        // SIGALRM, which workers need.
        $curl = ['body_as_string' => true, CURLOPT_NOSIGNAL => true] + ($this->options['curl'] ?? []);
        if (!$request->isRepeatable) {
            // On a kept connection that turns out to be closed, cURL would send the request again by itself.
            $curl[CURLOPT_FRESH_CONNECT] = true;
        }
        return [
            'verify' => true,
            ...$this->options,
            'timeout' => $timeLimit,
            'connect_timeout' => min($timeLimit, self::CONNECT_SECONDS),
            'decode_content' => false,
            'curl' => $curl,
        ];
    }

    private static function answer(ResponseInterface $response): Answer
    {
        return new Answer($response->getStatusCode(), self::headers($response), (string) $response->getBody());
    }

    /** @return array<string, string> */
    public static function headers(ResponseInterface $response): array
    {
        $headers = [];
        foreach ($response->getHeaders() as $name => $values) {
            $headers[strtolower((string) $name)] = implode(', ', $values);
        }
        return $headers;
    }

    private static function error(mixed $error, float $timeLimit): ConnectionError
    {
        $hasContext = $error instanceof ConnectException || $error instanceof RequestException;
        $context = $hasContext ? $error->getHandlerContext() : [];
        $errno = $context['errno'] ?? null;
        $wasConnected = ($context['pretransfer_time'] ?? 0.0) > 0.0;
        $wasSent = $wasConnected || !($errno === CURLE_OPERATION_TIMEDOUT || in_array($errno, self::NOT_SENT, true));
        $previous = $error instanceof Throwable ? $error : null;
        $detail = match (true) {
            $errno === CURLE_OPERATION_TIMEDOUT => "no answer within $timeLimit s",
            $wasSent => 'the connection to the server broke',
            default => 'failed to connect to the server',
        };
        $cause = $context['error'] ?? $previous?->getMessage() ?? '';
        return new ConnectionError(
            $cause === '' ? $detail : "$detail: $cause",
            $wasSent ? Applied::Unknown : Applied::No,
            previous: $previous,
        );
    }
}
