//! Arrays in the memory of a device as calls take them, and numbers of the host next to them.

use ir::Scalar;
use ir::array::Array;
use ir::bind::Given;

use super::device::Device;

/// An array in the memory of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident<'a> {
    pub(crate) dtype: ir::Dtype,
    pub(crate) shape: &'a [usize],
    /// `None` if the host has the element, and the device not yet.
    pub(crate) address: Option<u64>,
    /// The element, if this is a scalar that a size can depend on, or one of the host.
    pub(crate) scalar: Option<Scalar>,
}

impl Given for Resident<'_> {
    fn dtype(&self) -> ir::Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn scalar(&self) -> Option<Scalar> {
        self.scalar
    }
}

/// The inputs and the results of a call.
pub(crate) type ResidentCall<'a> = (Vec<Resident<'a>>, Vec<Resident<'a>>);

/// Device memory for inputs that are numbers of the host: a word for each input, with what it has
/// now. Calls run in the order of a stream, so a later one may overwrite what an earlier one reads.
pub(super) struct Numbers {
    base: u64,
    values: Vec<Option<Scalar>>,
}

/// The bytes of a word.
const WORD: usize = 8;

impl Numbers {
    /// The address of the first word.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The addresses of inputs, then of results. Numbers of the host are copied to `numbers`,
    /// unless they are there.
    pub(super) fn place<D: Device>(
        numbers: &mut Option<Numbers>,
        device: &mut D,
        inputs: &[Resident<'_>],
        outputs: &[Resident<'_>],
    ) -> Result<Vec<u64>, D::Error> {
        let mut addresses = vec![];
        for (n, array) in inputs.iter().chain(outputs).enumerate() {
            addresses.push(match (array.address, array.scalar) {
                (Some(address), _) => address,
                (None, Some(value)) => {
                    let numbers = match numbers {
                        Some(numbers) => numbers,
                        None => {
                            let base = device.allocate(WORD * inputs.len())?;
                            numbers.insert(Numbers { base, values: vec![None; inputs.len()] })
                        }
                    };
                    numbers.put(device, n, value)?
                }
                // Results are arrays of the device.
                (None, None) => 0,
            });
        }
        Ok(addresses)
    }

    /// The address of the word of an input, with this number in it.
    fn put<D: Device>(&mut self, device: &mut D, input: usize, value: Scalar) -> Result<u64, D::Error> {
        let address = self.base + (WORD * input) as u64;
        let is_there = |there: Scalar| there.dtype() == value.dtype() && there.bits() == value.bits();
        if let Some(word) = self.values.get_mut(input)
            && !word.is_some_and(is_there)
        {
            *word = None;
            device.upload(address, Array::scalar(value).bytes())?;
            *word = Some(value);
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::ptx::{Facts, Launch, Target};

    /// A device that notes copies to it.
    #[derive(Default)]
    struct Noted(Vec<(u64, Vec<u8>)>);

    impl Device for Noted {
        type Error = ();
        type Recording = ();

        fn available(&mut self) -> Result<Option<usize>, ()> {
            Ok(None)
        }
        fn facts(&self) -> Facts {
            Facts { shared: 0, target: Target::Sm80, multiprocessors: 1 }
        }
        fn allocate(&mut self, _: usize) -> Result<u64, ()> {
            Ok(512)
        }
        fn free(&mut self, _: u64) {}
        fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), ()> {
            self.0.push((to, bytes.to_vec()));
            Ok(())
        }
        fn download(&mut self, _: u64, _: &mut [u8]) -> Result<(), ()> {
            Err(())
        }
        fn prepare(&mut self, _: &BTreeSet<&str>, _: &str) -> Result<(), ()> {
            Err(())
        }
        fn launch(&mut self, _: &Launch<'_>) -> Result<(), ()> {
            Err(())
        }
        fn timed(&mut self, _: &[Launch<'_>]) -> Result<Vec<Duration>, ()> {
            Err(())
        }
        fn record(&mut self, _: &[Launch<'_>], _: &[Vec<usize>]) -> Result<Option<()>, ()> {
            Err(())
        }
        fn replay(&mut self, (): &()) -> Result<(), ()> {
            Err(())
        }
        fn wait(&mut self) -> Result<(), ()> {
            Err(())
        }
    }

    fn number(value: Scalar) -> Resident<'static> {
        Resident { dtype: value.dtype(), shape: &[], address: None, scalar: Some(value) }
    }

    #[test]
    fn numbers_are_copied_when_their_bits_change() {
        let (mut device, mut numbers) = (Noted::default(), None);
        let array = Resident { dtype: ir::Dtype::F32, shape: &[3], address: Some(256), scalar: None };
        let mut call = |value: f64, count: i64| {
            let inputs = [array, number(Scalar::F64(value)), number(Scalar::I64(count))];
            let addresses = Numbers::place(&mut numbers, &mut device, &inputs, &[array]).unwrap();
            assert_eq!(addresses, [256, 520, 528, 256]);
            std::mem::take(&mut device.0)
        };
        let word = |value: f64| (520, value.to_le_bytes().to_vec());
        assert_eq!(call(0.0, 5), [word(0.0), (528, 5i64.to_le_bytes().to_vec())]);
        assert_eq!(call(0.0, 5), []);
        assert_eq!(call(-0.0, 5), [word(-0.0)]);
        assert_eq!(call(f64::NAN, 5), [word(f64::NAN)]);
        assert_eq!(call(f64::NAN, 5), []);
    }
}
