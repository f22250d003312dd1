package io.tidegate.internal;

import com.fasterxml.jackson.databind.JavaType;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Lists that the server returns in pages. A page is read when the items before it are consumed. */
public final class Pages {
    private Pages() {}

    /** A page. */
    record Page<T>(List<T> items, String next) {}

    /** All items of a list. The path may have a query. */
    public static <T> Stream<T> stream(ClientCore core, String path, Class<T> type) {
        Iterator<T> items = new Items<>(core, path, type);
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(items, Spliterator.ORDERED), false);
    }

    private static final class Items<T> implements Iterator<T> {
        private final ClientCore core;
        private final String path;
        private final JavaType type;
        private final Queue<T> page = new ArrayDeque<>();
        private String cursor;
        private boolean isLast;

        Items(ClientCore core, String path, Class<T> type) {
            this.core = core;
            this.path = path;
            this.type = Json.WIRE.getTypeFactory().constructParametricType(Page.class, type);
        }

        @Override
        public boolean hasNext() {
            while (page.isEmpty() && !isLast) {
                read();
            }
            return !page.isEmpty();
        }

        @Override
        public T next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return page.remove();
        }

        private void read() {
            String separator = path.contains("?") ? "&" : "?";
            String query = cursor == null ? "" : separator + "cursor=" + Names.encode(cursor);
            Page<T> read = Json.read(core.call(HttpCall.get(path + query)).body(), type);
            page.addAll(read.items());
            cursor = read.next();
            isLast = cursor == null;
        }
    }
}
