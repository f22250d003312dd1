<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Generator;
use stdClass;
use Tidegate\Errors\TidegateError;

/**
 * Reads lists page by page.
 *
 * @internal
 */
final class Pages
{
    /**
     * @param array<string, mixed> $parameters
     * @param string|null $uniqueBy a field: an item that is on several pages is returned once
     * @return Generator<int, stdClass>
     * @throws TidegateError
     */
    public static function read(
        Sender $sender,
        string $path,
        array $parameters = [],
        ?string $uniqueBy = null,
    ): Generator {
        $items = [];
        $seen = [];
        do {
            $answer = $sender->send(Request::get(Path::with($path, $parameters)));
            $page = $answer->document();
            foreach ($page->items as $item) {
                if ($uniqueBy === null || !isset($items[$item->{$uniqueBy}])) {
                    yield $item;
                }
                $uniqueBy === null ?: $items[$item->{$uniqueBy}] = true;
            }
            $next = $page->next ?? null;
            if ($next !== null && isset($seen[$next])) {
                throw Problem::unreadable($answer, "the cursor $next came twice");
            }
            $seen[$next ?? ''] = true;
            $parameters['cursor'] = $next;
        } while ($next !== null);
    }
}
