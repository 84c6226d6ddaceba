//! Functions that kernels call. C leaves some operations undefined for some operands, and NVIDIA's
//! compilers contract or approximate others; ours are total and exact (`ir::ops`).

/// A function, or several of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Helper {
    /// Sums, differences and products of signed integers that wrap.
    Wrapping,
    /// Quotients and remainders of integers.
    Division,
    /// Shifts by any amount.
    Shifts,
    /// Absolute values of signed integers.
    Absolute,
    /// The lesser and the greater of two numbers.
    Extremes,
    /// Conversions from floats to integers.
    Saturation,
    /// The same bits as another type.
    Bits,
    /// Conversions of 16-bit floats.
    Half,
    /// Several adjacent elements as one access.
    Vector,
    /// Bounds checks.
    Checked,
    /// The results of chunks, joined in pairs.
    Pairs,
    /// Reductions by the threads of a block.
    Together,
    /// Reductions by one thread, by lanes.
    Lanes,
    /// Running reductions by one thread.
    Running,
    /// Running reductions in chunks, by blocks.
    Relay,
}

impl Helper {
    /// The helpers that it calls.
    pub(super) fn needs(self) -> &'static [Helper] {
        match self {
            Helper::Half => &[Helper::Bits],
            Helper::Division => &[Helper::Wrapping],
            Helper::Saturation => &[Helper::Extremes],
            Helper::Together | Helper::Lanes => &[Helper::Pairs],
            Helper::Wrapping
            | Helper::Shifts
            | Helper::Absolute
            | Helper::Extremes
            | Helper::Bits
            | Helper::Vector
            | Helper::Checked
            | Helper::Running
            | Helper::Relay
            | Helper::Pairs => &[],
        }
    }

    /// Its text.
    pub(super) fn text(self) -> &'static str {
        match self {
            Helper::Wrapping => WRAPPING,
            Helper::Division => DIVISION,
            Helper::Shifts => SHIFTS,
            Helper::Absolute => ABSOLUTE,
            Helper::Extremes => EXTREMES,
            Helper::Saturation => SATURATION,
            Helper::Bits => BITS,
            Helper::Half => HALF,
            Helper::Vector => VECTOR,
            Helper::Checked => CHECKED,
            Helper::Pairs => PAIRS,
            Helper::Together => TOGETHER,
            Helper::Lanes => LANES,
            Helper::Running => RUNNING,
            Helper::Relay => RELAY,
        }
    }
}

const BITS: &str = "\
// The same bits as another type of the same width.
template <typename To, typename From> __device__ inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), \"types of one width\");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
";

const WRAPPING: &str = "\
// Sums, differences and products of signed integers wrap.
__device__ inline int add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
// (As unsigned numbers: NVIDIA's assembler loses the sign of a negation that goes into a minimum.)
__device__ inline int sub(int a, int b) {
  int difference;
  asm(\"sub.u32 %0, %1, %2;\" : \"=r\"(difference) : \"r\"(a), \"r\"(b));
  return difference;
}
__device__ inline int mul(int a, int b) { return int(unsigned(a) * unsigned(b)); }
__device__ inline long long add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}
__device__ inline long long sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}
__device__ inline long long mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}
";

const DIVISION: &str = "\
// By 0 the quotient and the remainder are 0, and the quotient of the least number by -1 wraps.
__device__ inline unsigned quotient(unsigned a, unsigned b) { return b == 0 ? 0 : a / b; }
__device__ inline unsigned remainder(unsigned a, unsigned b) { return b == 0 ? 0 : a % b; }
__device__ inline unsigned long long quotient(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a / b; }
__device__ inline unsigned long long remainder(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a % b; }
__device__ inline int quotient(int a, int b) { return b == 0 || b == -1 ? mul(a, b) : a / b; }
__device__ inline int remainder(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
__device__ inline long long quotient(long long a, long long b) { return b == 0 || b == -1 ? mul(a, b) : a / b; }
__device__ inline long long remainder(long long a, long long b) { return b == 0 || b == -1 ? 0 : a % b; }
";

const SHIFTS: &str = "\
// A shift by the width of a number or more, or by a negative amount, leaves 0 or the sign.
__device__ inline unsigned left(unsigned a, unsigned by) { return by < 32 ? a << by : 0; }
__device__ inline unsigned right(unsigned a, unsigned by) { return by < 32 ? a >> by : 0; }
__device__ inline unsigned long long left(unsigned long long a, unsigned long long by) { return by < 64 ? a << by : 0; }
__device__ inline unsigned long long right(unsigned long long a, unsigned long long by) { return by < 64 ? a >> by : 0; }
__device__ inline int left(int a, int by) { return int(left(unsigned(a), unsigned(by))); }
__device__ inline int right(int a, int by) { return a >> (unsigned(by) < 32 ? by : 31); }
__device__ inline long long left(long long a, long long by) {
  return (long long)left((unsigned long long)a, (unsigned long long)by);
}
__device__ inline long long right(long long a, long long by) { return a >> ((unsigned long long)by < 64 ? by : 63); }
";

const ABSOLUTE: &str = "\
// The absolute value; the least number stays.
__device__ inline int absolute(int a) { return a < 0 ? int(0 - unsigned(a)) : a; }
__device__ inline long long absolute(long long a) { return a < 0 ? (long long)(0 - (unsigned long long)a) : a; }
";

const EXTREMES: &str = "\
// The lesser and the greater of two numbers: NaN if either is, and -0 is below +0.
template <typename T> __device__ inline T least(T a, T b) { return a < b ? a : b; }
template <typename T> __device__ inline T greatest(T a, T b) { return a > b ? a : b; }
// (By comparison: NVIDIA's assembler loses signs where it joins two minima of integers.)
template <> __device__ inline int least(int a, int b) {
  int least;
  asm(\"{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, %1, %2, p; }\" : \"=r\"(least) : \"r\"(a), \"r\"(b));
  return least;
}
template <> __device__ inline int greatest(int a, int b) {
  int greatest;
  asm(\"{ .reg .pred p; setp.gt.s32 p, %1, %2; selp.b32 %0, %1, %2, p; }\" : \"=r\"(greatest) : \"r\"(a), \"r\"(b));
  return greatest;
}
template <> __device__ inline float least(float a, float b) {
  float least;
  asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(least) : \"f\"(a), \"f\"(b));
  return least;
}
template <> __device__ inline float greatest(float a, float b) {
  float greatest;
  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(greatest) : \"f\"(a), \"f\"(b));
  return greatest;
}
template <> __device__ inline double least(double a, double b) {
  double least;
  asm(\"min.f64 %0, %1, %2;\" : \"=d\"(least) : \"d\"(a), \"d\"(b));
  return a != a || b != b ? __longlong_as_double(0x7ff8000000000000) : least;
}
template <> __device__ inline double greatest(double a, double b) {
  double greatest;
  asm(\"max.f64 %0, %1, %2;\" : \"=d\"(greatest) : \"d\"(a), \"d\"(b));
  return a != a || b != b ? __longlong_as_double(0x7ff8000000000000) : greatest;
}
";

const SATURATION: &str = "\
// Floats truncated to integers: the nearest one that there is, and 0 for NaN.
__device__ inline int to_int(float a) { return __float2int_rz(a); }
__device__ inline int to_int(double a) { return a != a ? 0 : __double2int_rz(a); }
__device__ inline unsigned to_unsigned(float a) { return __float2uint_rz(a); }
__device__ inline unsigned to_unsigned(double a) { return a != a ? 0 : __double2uint_rz(a); }
__device__ inline long long to_long(float a) { return a != a ? 0 : __float2ll_rz(a); }
__device__ inline long long to_long(double a) { return a != a ? 0 : __double2ll_rz(a); }
__device__ inline unsigned long long to_unsigned_long(float a) { return a != a ? 0 : __float2ull_rz(a); }
__device__ inline unsigned long long to_unsigned_long(double a) { return a != a ? 0 : __double2ull_rz(a); }
template <typename T> __device__ inline T within(T a, T from, T to) { return least(greatest(a, from), to); }
";

const HALF: &str = "\
// 16-bit floats, as their bits.
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
__device__ inline float to_float(f16 a) {
  float wide;
  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(wide) : \"h\"(a.bits));
  return wide;
}
__device__ inline float to_float(bf16 a) { return bits<float>(unsigned(a.bits) << 16); }
template <typename T> __device__ inline T to_half(float a);
template <> __device__ inline f16 to_half(float a) {
  f16 half;
  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(half.bits) : \"f\"(a));
  return half;
}
template <> __device__ inline bf16 to_half(float a) {
  bf16 half;
  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(half.bits) : \"f\"(a));
  return half;
}
// Rounds to odd first, so that the second rounding gives what one rounding would.
template <typename T> __device__ inline T to_half(double a) {
  const float cut = __double2float_rz(a);
  return to_half<T>(double(cut) != a && a == a ? bits<float>(bits<unsigned>(cut) | 1) : cut);
}
template <typename T> __device__ inline T to_half(int a) { return to_half<T>(double(a)); }
template <typename T> __device__ inline T to_half(unsigned a) { return to_half<T>(double(a)); }
template <typename T> __device__ inline T to_half(long long a) {
  const double cut = __ll2double_rz(a);
  return to_half<T>(__double2ll_rz(cut) != a ? bits<double>(bits<long long>(cut) | 1) : cut);
}
template <typename T> __device__ inline T to_half(unsigned long long a) {
  const double cut = __ull2double_rz(a);
  return to_half<T>(__double2ull_rz(cut) != a ? bits<double>(bits<long long>(cut) | 1) : cut);
}
";

const VECTOR: &str = "\
// Adjacent elements, which one access loads or stores.
template <typename T, int width> struct alignas(sizeof(T) * width > 16 ? 16 : sizeof(T) * width) Vector { T at[width]; };
";

const CHECKED: &str = "\
// The first failed check of a call: its number and 1, the index and its bound.
struct Fault { unsigned site; long long index, bound; };
// The index, or 0 if it is out of bounds. After that nothing is loaded through an index.
__device__ inline long long checked(long long index, long long bound, unsigned site, Fault* fault, bool& passed) {
  if (0 <= index && index < bound) return index;
  passed = false;
  if (atomicCAS(&fault->site, 0u, site + 1) == 0) {
    fault->index = index;
    fault->bound = bound;
  }
  return 0;
}
";

const PAIRS: &str = "\
// The results of chunks, joined in pairs as they arrive, and those pairs in pairs.
template <typename State> struct Pairs {
  State levels[48];
  long long count;
  __device__ void begin(State nothing) {
    count = 0;
    for (int level = 0; level < 48; level++) levels[level] = nothing;
  }
  template <typename Merge> __device__ void push(State state, Merge merge) {
    int level = 0;
    for (long long number = count++; number & 1; number /= 2) state = merge(levels[level++], state);
    levels[level] = state;
  }
  template <typename Merge> __device__ State joined(State nothing, Merge merge) const {
    State state = nothing;
    for (int level = 0; level < 48; level++)
      if (count >> level & 1) state = merge(levels[level], state);
    return state;
  }
};
";

const TOGETHER: &str = "\
// A reduction by the threads of a block.
template <typename State, int threads> struct Together {
  State own[threads];
  Pairs<State> pairs;
  __device__ void begin(State nothing) {
    __syncthreads();
    if (threadIdx.x == 0) pairs.begin(nothing);
    __syncthreads();
  }
  // Lanes of chunks: those of a chunk are folded in halves.
  template <typename Merge> __device__ void lanes(State lane, long long chunks, Merge merge) {
    own[threadIdx.x] = lane;
    __syncthreads();
    for (int apart = 64; apart > 0; apart /= 2) {
      if (threadIdx.x % 128 < apart) own[threadIdx.x] = merge(own[threadIdx.x], own[threadIdx.x + apart]);
      __syncthreads();
    }
    if (threadIdx.x == 0)
      for (int group = 0; group < threads / 128 && group < chunks; group++) pairs.push(own[group * 128], merge);
    __syncthreads();
  }
  // A result for each thread.
  template <typename Merge> __device__ void results(State result, long long count, Merge merge) {
    own[threadIdx.x] = result;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int thread = 0; thread < threads && thread < count; thread++) pairs.push(own[thread], merge);
    __syncthreads();
  }
  template <typename Merge> __device__ State joined(State nothing, Merge merge) const { return pairs.joined(nothing, merge); }
};
";

const LANES: &str = "\
// A reduction by one thread, in the order by lanes.
template <typename State> struct Lanes {
  State lanes[128];
  Pairs<State> pairs;
  int taken;
  __device__ void begin(State nothing) {
    pairs.begin(nothing);
    taken = 0;
    for (int lane = 0; lane < 128; lane++) lanes[lane] = nothing;
  }
  template <typename Merge> __device__ void take(State one, State nothing, Merge merge) {
    lanes[taken % 128] = merge(lanes[taken % 128], one);
    if (++taken == 4096) fold(nothing, merge);
  }
  template <typename Merge> __device__ void fold(State nothing, Merge merge) {
    for (int apart = 64; apart > 0; apart /= 2)
      for (int lane = 0; lane < apart; lane++) lanes[lane] = merge(lanes[lane], lanes[lane + apart]);
    pairs.push(lanes[0], merge);
    taken = 0;
    for (int lane = 0; lane < 128; lane++) lanes[lane] = nothing;
  }
  template <typename Merge> __device__ State joined(State nothing, Merge merge) {
    if (taken > 0) fold(nothing, merge);
    return pairs.joined(nothing, merge);
  }
};
";

const RUNNING: &str = "\
// A running reduction by one thread: in groups of 16 by doubling, and from group to group and from
// chunk to chunk of 4,096 by what is carried on.
template <typename State> struct Running {
  State levels[4][16], group, chunk;
  long long taken;
  __device__ void begin(State nothing) {
    for (int level = 0; level < 4; level++)
      for (int place = 0; place < 16; place++) levels[level][place] = nothing;
    group = chunk = nothing;
    taken = 0;
  }
  template <typename Merge> __device__ State take(State one, State nothing, Merge merge) {
    const int place = taken++ % 16;
    State sum = one;
    for (int level = 0; level < 4; level++) {
      levels[level][place] = sum;
      if (place >= 1 << level) sum = merge(levels[level][place - (1 << level)], sum);
    }
    const State prefix = merge(chunk, merge(group, sum));
    if (place == 15) group = merge(group, sum);
    if (taken % 4096 == 0) {
      chunk = merge(chunk, group);
      group = nothing;
    }
    return prefix;
  }
};
";

const RELAY: &str = "\
// The number of a block, in the order in which those of a launch start, and that of the launch.
struct Turn { long long number; unsigned launch; };
__device__ inline Turn take_turn(unsigned long long* taken, long long blocks) {
  __shared__ unsigned long long ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(taken, 1ull);
  __syncthreads();
  return {(long long)(ticket % blocks), unsigned(ticket / blocks) + 1};
}
// Results of chunks, which one block leaves for another: 32 bits in a word, next to the number of
// the launch that has written it.
template <typename State> struct Passed {
  static const int halves = (sizeof(State) + 3) / 4;
  unsigned long long* words;
  long long chunks;
  unsigned launch;
  __device__ void put(long long chunk, State state) const {
    unsigned half[halves] = {};
    memcpy(half, &state, sizeof state);
    for (int k = 0; k < halves; k++)
      ((volatile unsigned long long*)words)[k * chunks + chunk] = (unsigned long long)launch << 32 | half[k];
  }
  // Whether the result of a chunk is there.
  __device__ bool get(long long chunk, State& state) const {
    unsigned half[halves];
    bool there = true;
    for (int k = 0; k < halves; k++) {
      const unsigned long long word = ((volatile unsigned long long*)words)[k * chunks + chunk];
      half[k] = unsigned(word);
      there = there && word >> 32 == launch;
    }
    if (there) memcpy(&state, half, sizeof state);
    return there;
  }
};
// The state of another lane of the warp.
template <typename State> __device__ inline State of_lane(State state, int lane) {
  unsigned half[Passed<State>::halves] = {};
  memcpy(half, &state, sizeof state);
  for (unsigned& bits : half) bits = __shfl_sync(~0u, bits, lane);
  memcpy(&state, half, sizeof state);
  return state;
}
// A warp relays to each chunk what is before it, as the results of chunks come in.
template <typename State, typename Merge>
__device__ inline void relay(Passed<State> own, Passed<State> before, State nothing, Merge merge) {
  const int lane = threadIdx.x % 32;
  State carry = nothing;
  for (long long done = 0; done < own.chunks;) {
    State state = nothing, mine = nothing;
    const bool there = done + lane < own.chunks && own.get(done + lane, state);
    const unsigned missing = ~__ballot_sync(~0u, there);
    const int arrived = missing == 0 ? 32 : __ffs(missing) - 1;
    for (int from = 0; from < arrived; from++) {
      if (lane == from) mine = carry;
      carry = merge(carry, of_lane(state, from));
    }
    if (lane < arrived) before.put(done + lane, mine);
    done += arrived;
  }
}
// A running reduction of a chunk of 4,096 elements: in groups of 16 by doubling, and from group to
// group by what is carried on.
template <typename State> struct Chunk {
  State groups[256], before;
  template <typename Merge> __device__ State grouped(State sum, int round, Merge merge) {
    const int lane = threadIdx.x % 32;
    for (int apart = 1; apart < 16; apart *= 2) {
      const State other = of_lane(sum, lane >= apart ? lane - apart : 0);
      if (lane % 16 >= apart) sum = merge(other, sum);
    }
    if (lane % 16 == 15) groups[round * 8 + threadIdx.x / 16] = sum;
    return sum;
  }
  template <typename Merge>
  __device__ void carry(Passed<State> own, Passed<State> relayed, long long chunk, State nothing, Merge merge) {
    __syncthreads();
    if (threadIdx.x == 0) {
      State carried = nothing;
      for (State& group : groups) {
        const State sum = group;
        group = carried;
        carried = merge(carried, sum);
      }
      own.put(chunk, carried);
      while (!relayed.get(chunk, before)) {}
    }
    __syncthreads();
  }
  template <typename Merge> __device__ State prefix(State sum, int round, Merge merge) const {
    return merge(before, merge(groups[round * 8 + threadIdx.x / 16], sum));
  }
};
";
