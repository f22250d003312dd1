/** The answers of the server. Parts that may be absent are null, as their documentation says. */
package io.tidegate.model;
