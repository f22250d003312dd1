<?php

declare(strict_types=1);

namespace Tidegate\Tests;

use GuzzleHttp\Client as GuzzleClient;
use GuzzleHttp\Exception\RequestException;
use GuzzleHttp\Psr7\HttpFactory;
use PHPUnit\Framework\TestCase;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;
use Tidegate\Applied;
use Tidegate\Errors\ConnectionError;
use Tidegate\Http\Answer;
use Tidegate\Http\GuzzleTransport;
use Tidegate\Http\Psr18Transport;
use Tidegate\Http\Request;
use Tidegate\Http\Transport;
use Tidegate\Loop\Loop;

/** Requests over real sockets of this process. */
final class GuzzleTransportTest extends TestCase
{
    /** @var resource */
    private $server;
    private string $url;
    /** What the server has read. */
    private string $received = '';

    protected function setUp(): void
    {
        $this->server = stream_socket_server('tcp://127.0.0.1:0');
        stream_set_blocking($this->server, false);
        $this->url = 'http://' . stream_socket_get_name($this->server, false);
    }

    /** Sends a request while the server answers each connection with the text, and closes it. */
    private function exchange(Transport $transport, ?string $text, float $timeLimit = 5.0): Answer
    {
        $loop = new Loop($transport);
        $connection = false;
        $loop->addBackground(function () use (&$connection, $text): float {
            // The client goes on only when this function has returned, so nothing here may wait.
            $connection = $connection ?: @stream_socket_accept($this->server, 0);
            if (is_resource($connection)) {
                stream_set_blocking($connection, false);
                $this->received .= $text === null ? '' : fread($connection, 4096);
                if ($this->received !== '') {
                    fwrite($connection, $text);
                    fclose($connection);
                }
            }
            return 0.01;
        });
        return $loop->await($transport->start(new Request('POST', "$this->url/a?b=%2F", [], 'body'), $timeLimit));
    }

    private function errorOf(?string $text, float $timeLimit): ConnectionError
    {
        try {
            $this->exchange(new GuzzleTransport(), $text, $timeLimit);
        } catch (ConnectionError $error) {
            return $error;
        }
        self::fail('no error');
    }

    public function testAnAnswerIsRead(): void
    {
        $text = "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nok";
        $answer = $this->exchange(new GuzzleTransport(), $text);
        self::assertSame([503, '3', 'ok'], [$answer->status, $answer->header('retry-after'), $answer->body]);
        self::assertStringContainsStringIgnoringCase("\r\ncontent-length: 4\r\n", $this->received);
    }

    public function testWhatIsNotSentIsNotApplied(): void
    {
        fclose($this->server);
        $this->server = stream_socket_server('tcp://127.0.0.1:0');
        $error = null;
        try {
            (new GuzzleTransport())->exchange(Request::get("$this->url/x"), 5.0);
        } catch (ConnectionError $error) {
        }
        self::assertSame(Applied::No, $error?->applied);
    }

    public function testABrokenConnectionMayHaveAppliedTheRequest(): void
    {
        $error = $this->errorOf("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", 5.0);
        self::assertSame(Applied::Unknown, $error->applied);
    }

    public function testATimeLimitMayHaveAppliedTheRequest(): void
    {
        $begin = hrtime(true);
        self::assertSame(Applied::Unknown, $this->errorOf(null, 0.3)->applied);
        self::assertLessThan(2e9, hrtime(true) - $begin);
    }

    public function testARequestIsCut(): void
    {
        $transport = new GuzzleTransport();
        $future = $transport->start(new Request('GET', "$this->url/x", wait: 10.0), 20.0);
        $transport->tick(0.01);
        $future->cancel(new ConnectionError('cut'));
        $this->expectExceptionMessage('cut');
        $future->get();
    }

    public function testAnyPsr18ClientIsATransport(): void
    {
        fclose($this->server);
        $factory = new HttpFactory();
        $transport = new Psr18Transport(new GuzzleClient(), $factory, $factory);
        $this->expectException(ConnectionError::class);
        $transport->exchange(new Request('POST', "$this->url/x", ['A' => 'b'], 'body'), 5.0);
    }

    public function testAClientOfPsr18DoesNotSayThatNothingWasSent(): void
    {
        $client = new class () implements ClientInterface {
            public function sendRequest(RequestInterface $request): ResponseInterface
            {
                throw new RequestException('the connection was reset', $request);
            }
        };
        $factory = new HttpFactory();
        $error = null;
        try {
            (new Psr18Transport($client, $factory, $factory))->exchange(new Request('POST', "$this->url/x"), 5.0);
        } catch (ConnectionError $error) {
        }
        self::assertSame(Applied::Unknown, $error?->applied);
    }
}
