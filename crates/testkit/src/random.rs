//! Numbers for tests that act at random, and repeat a failure by its seed.

/// Numbers that look random and are the same for the same seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the numbers of `VESTAL_SOAK_SEED`, and prints the seed.
    #[expect(clippy::print_stdout, reason = "a failure is repeated with the seed")]
    pub fn from_environment() -> Self {
        let seed = soak("VESTAL_SOAK_SEED", 20_260_101);
        println!("seed {seed}");
        Self(seed)
    }

    /// Returns the next number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns a number that a longer run sets by a variable.
#[expect(clippy::disallowed_methods, reason = "a test's own switch is not a setting")]
pub fn soak(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}
