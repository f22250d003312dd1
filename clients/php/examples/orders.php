<?php

/** Orders that are closed unless they are paid. Run it with `work`, `place NUMBER` or `paid NUMBER`. */

declare(strict_types=1);

use Tidegate\{Client, Duration, PublishOptions};
use Tidegate\Errors\NotFoundError;
use Tidegate\Worker\{Dead, Job, RetryIn, Worker, WorkerEvent};

require __DIR__ . '/../tests/autoload.php'; // In your program: vendor/autoload.php

final class TooManyMails extends RuntimeException {}
final class NoSuchMailbox extends RuntimeException {}

function closeOrder(Job $job): string
{
    for ($page = 0; $page < 100; $page++) {
        // Ends the handler if the job is cancelled, or another worker has it.
        $job->sleep(Duration::milliseconds(100));
    }
    return "{$job->payload()['order']} is closed";
}

function sendMail(Job $job): void
{
    try {
        deliver($job->payload()['to']);
    } catch (TooManyMails $error) {
        throw new RetryIn($error, Duration::seconds(30));
    } catch (NoSuchMailbox $error) {
        throw new Dead($error);
    }
}

function deliver(string $to): void
{
    str_contains($to, '@') || throw new NoSuchMailbox("no mailbox $to");
    str_ends_with($to, '@busy.example') && throw new TooManyMails('try later');
}

$client = new Client(); // TIDEGATE_URL, TIDEGATE_KEY, TIDEGATE_NAMESPACE
$key = 'order-' . ($argv[2] ?? '17');
match ($argv[1] ?? 'work') {
    'place' => $client->publish('close-unpaid', ['order' => $key], new PublishOptions(Duration::hours(0.5), key: $key)),
    'paid' => paid($client, $key),
    'work' => (new Worker($client))->handle('close-unpaid', closeOrder(...))->handle('mails', sendMail(...))
        ->listen(fn (WorkerEvent $event) => error_log("$event->name {$event->job?->id} {$event->error?->getMessage()}"))
        ->run(), // until SIGTERM or SIGINT; handlers have 25 s to finish
};

function paid(Client $client, string $key): void
{
    try {
        $client->queue('close-unpaid')->jobWithKey($key)->cancel(Tidegate\IfRunning::Ask);
    } catch (NotFoundError) {
        error_log("$key is closed already");
    }
}
