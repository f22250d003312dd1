<?php

declare(strict_types=1);

namespace Tidegate\Examples\Laravel;

use DateTimeImmutable;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher as EventDispatcher;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\QueueManager;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use PHPUnit\Framework\TestCase;
use RuntimeException;
use Tidegate\Duration;
use Tidegate\Testing\Fake;

/** A handler as Laravel names it: `CLASS@METHOD`. */
final class Greeter
{
    /** @var list<string> */
    public static array $greeted = [];

    /** @param array{name: string} $data */
    public function greet(JobContract $job, array $data): void
    {
        if ($data['name'] === 'nobody') {
            throw new RuntimeException('there is nobody');
        }
        self::$greeted[] = $data['name'];
        $job->delete();
    }
}

final class TidegateQueueTest extends TestCase
{
    private Fake $fake;
    private TidegateQueue $queue;

    public static function setUpBeforeClass(): void
    {
        if (!class_exists(QueueManager::class)) {
            self::markTestSkipped('illuminate/queue is not installed');
        }
        require_once __DIR__ . '/TidegateQueue.php';
    }

    protected function setUp(): void
    {
        Greeter::$greeted = [];
        $this->fake = new Fake();
        $this->queue = new TidegateQueue(
            $this->fake->client(),
            'default',
            Duration::seconds(90),
            Duration::seconds(0),
        );
        $container = new Container();
        $container->instance(EventDispatcher::class, new Dispatcher());
        $this->queue->setContainer($container);
        $this->queue->setConnectionName('tidegate');
    }

    public function testAJobRunsAndIsDeleted(): void
    {
        $id = $this->queue->push(Greeter::class . '@greet', ['name' => 'Ann']);
        $job = $this->queue->pop();
        self::assertSame([$id, 1, 'default'], [$job->getJobId(), $job->attempts(), $job->getQueue()]);
        self::assertSame(1, $this->queue->reservedSize());
        $job->fire();
        self::assertSame(['Ann'], Greeter::$greeted);
        self::assertSame(0, $this->queue->size());
        self::assertNull($this->queue->pop());
    }

    public function testADelayedJobComesLater(): void
    {
        $this->queue->later(60, Greeter::class . '@greet', ['name' => 'Bob'], 'other');
        self::assertSame([1, 0], [$this->queue->delayedSize('other'), $this->queue->pendingSize('other')]);
        self::assertNull($this->queue->pop('other'));
        $this->fake->clock->advance(Duration::seconds(60));
        self::assertSame('other', $this->queue->pop('other')->getQueue());
        $this->queue->later(new DateTimeImmutable('-1 hour'), Greeter::class . '@greet', ['name' => 'Bob']);
        self::assertSame(1, $this->queue->pendingSize());
    }

    public function testTheWorkerOfLaravelRetriesAndThenDeletes(): void
    {
        $this->queue->push(Greeter::class . '@greet', ['name' => 'nobody']);
        $worker = $this->worker();
        $options = new WorkerOptions();
        $options->maxTries = 2;
        $options->backoff = 30;
        $this->process($worker, $options);
        self::assertSame(1, $this->queue->delayedSize());
        $this->fake->clock->advance(Duration::seconds(30));
        $this->process($worker, $options);
        self::assertSame(0, $this->queue->size());
    }

    private function worker(): Worker
    {
        $handler = $this->createStub(ExceptionHandler::class);
        $manager = new QueueManager(new Container());
        return new Worker($manager, new Dispatcher(), $handler, static fn (): bool => false);
    }

    private function process(Worker $worker, WorkerOptions $options): void
    {
        try {
            $worker->process('tidegate', $this->queue->pop(), $options);
            self::fail('no error');
        } catch (RuntimeException $error) {
            self::assertSame('there is nobody', $error->getMessage());
        }
    }
}
