//! Random texts: tokens, and the ids and secrets of API keys.

use rand::RngExt;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;

const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A text of `length` of the characters `0` to `9` and `A` to `Z`, from the random source of the operating system. Each
/// character has 5.17 random bits.
///
/// # Panics
/// If the operating system has no random source.
pub(crate) fn random_text(length: usize) -> String {
    let mut random = UnwrapErr(SysRng);
    (0..length)
        .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_length_use_the_whole_alphabet_and_differ() {
        let text = random_text(2000);
        assert_eq!(text.len(), 2000);
        for character in ALPHABET {
            assert!(text.contains(char::from(*character)), "{character}");
        }
        assert!(text.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(random_text(12), random_text(12));
    }
}
