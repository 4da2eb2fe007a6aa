//! Loops that are compiled for more than one kind of processor.

/// A loop of this kind. `run` must be `#[inline(always)]`, so that it is compiled inside the function that has the
/// features.
pub(crate) trait Kernel {
    /// Whether the loop computes enough to benefit from the vectors of AVX-512. Loops that mostly move memory are not
    /// faster with them.
    const COMPUTES: bool = false;

    fn run(self);
}

/// Runs the loop in the fastest way for the current processor: with AVX-512 if the processor has it and the loop
/// benefits, or with AVX2 and FMA if the processor has both.
pub(crate) fn dispatch<K: Kernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn with_avx512(kernel: impl Kernel) {
            kernel.run();
        }
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2_and_fma(kernel: impl Kernel) {
            kernel.run();
        }
        if K::COMPUTES && has_avx512() {
            // SAFETY: the only condition is that the processor has AVX-512, which was just asked of it.
            return unsafe { with_avx512(kernel) };
        }
        if has_avx2_and_fma() {
            // SAFETY: the only condition is that the processor has AVX2 and FMA, which was just asked of it.
            return unsafe { with_avx2_and_fma(kernel) };
        }
    }
    kernel.run();
}

// Functions of their own, because what asks the processor is long, and would be compiled for each loop.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2_and_fma() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}
