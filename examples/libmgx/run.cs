// Runs an artifact once on ones, and prints the first elements of each result.
//
//   mcs run.cs && LD_LIBRARY_PATH=FOLDER_OF_LIBMGX mono run.exe model.mgx cpu batch=4
//
// With dotnet it is the Program.cs of a console project. Sizes of named dimensions are words; inputs
// and results are of 32-bit floats here.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Runtime.InteropServices;

static class Mgx
{
    public const int Input = 0, Output = 1, Float32 = 1, Host = 1;

    [StructLayout(LayoutKind.Sequential)]
    public struct ArtifactInfo
    {
        public UIntPtr StructBytes;
        public IntPtr Name, Producer, ContentHash, HostOperators;
        public UIntPtr Targets, Inputs, Outputs, Dimensions;
    }

    [StructLayout(LayoutKind.Sequential)]
    public struct TensorInfo
    {
        public UIntPtr StructBytes;
        public IntPtr Name;
        public int Type;
        public uint Rank;
        public IntPtr Sizes, SizeTexts;
        public int MayShare;
    }

    [StructLayout(LayoutKind.Sequential)]
    public struct Tensor
    {
        public IntPtr Data, Sizes;
        public uint Rank, Type, Memory, Flags;
        public ulong Bytes;
    }

    [DllImport("mgx")]
    public static extern IntPtr mgx_error_text(IntPtr error);
    [DllImport("mgx")]
    public static extern IntPtr mgx_artifact_open(string path, IntPtr options, out IntPtr artifact);
    [DllImport("mgx")]
    public static extern IntPtr mgx_artifact_get_info(IntPtr artifact, ref ArtifactInfo info);
    [DllImport("mgx")]
    public static extern IntPtr mgx_artifact_tensor(IntPtr artifact, int way, UIntPtr number, ref TensorInfo info);
    [DllImport("mgx")]
    public static extern IntPtr mgx_device_open(string name, IntPtr options, out IntPtr device);
    [DllImport("mgx")]
    public static extern IntPtr mgx_program_create(IntPtr artifact, IntPtr device, IntPtr options, out IntPtr program);
    [DllImport("mgx")]
    public static extern IntPtr mgx_program_sizes(IntPtr program, Tensor[] inputs, UIntPtr count, [In, Out] Tensor[] outputs, UIntPtr results, IntPtr sizes);
    [DllImport("mgx")]
    public static extern IntPtr mgx_run(IntPtr program, Tensor[] inputs, UIntPtr count, Tensor[] outputs, UIntPtr results, IntPtr options);

    public static void Check(IntPtr error)
    {
        if (error == IntPtr.Zero)
            return;
        Console.Error.WriteLine("run: " + Marshal.PtrToStringAnsi(mgx_error_text(error)));
        Environment.Exit(1);
    }
}

static class Run
{
    // Name and sizes, as texts, of each input or output.
    static List<KeyValuePair<string, string[]>> Signature(IntPtr artifact, int way, UIntPtr count)
    {
        var found = new List<KeyValuePair<string, string[]>>();
        for (uint number = 0; number < (uint)count; ++number)
        {
            var info = new Mgx.TensorInfo { StructBytes = (UIntPtr)Marshal.SizeOf(typeof(Mgx.TensorInfo)) };
            Mgx.Check(Mgx.mgx_artifact_tensor(artifact, way, (UIntPtr)number, ref info));
            string name = Marshal.PtrToStringAnsi(info.Name);
            if (info.Type != Mgx.Float32)
                throw new NotSupportedException(name + " has no 32-bit floats");
            var sizes = new string[info.Rank];
            for (int axis = 0; axis < sizes.Length; ++axis)
                sizes[axis] = Marshal.PtrToStringAnsi(Marshal.ReadIntPtr(info.SizeTexts, axis * IntPtr.Size));
            found.Add(new KeyValuePair<string, string[]>(name, sizes));
        }
        return found;
    }

    // The address of an array that stays where it is as long as the process runs.
    static IntPtr Address(Array array)
    {
        return GCHandle.Alloc(array, GCHandleType.Pinned).AddrOfPinnedObject();
    }

    static float[] Fill(ref Mgx.Tensor tensor, long[] sizes, float value)
    {
        long count = 1;
        foreach (long size in sizes)
            count *= size;
        var values = new float[count];
        for (int i = 0; i < values.Length; ++i)
            values[i] = value;
        tensor = new Mgx.Tensor {
            Data = Address(values), Sizes = Address(sizes), Rank = (uint)sizes.Length,
            Type = Mgx.Float32, Memory = Mgx.Host, Bytes = 4 * (ulong)count };
        return values;
    }

    static int Main(string[] words)
    {
        if (words.Length < 2)
        {
            Console.Error.WriteLine("usage: run MODEL.mgx DEVICE NAME=SIZE...");
            return 2;
        }
        var given = new Dictionary<string, long>();
        for (int i = 2; i < words.Length; ++i)
            given[words[i].Split('=')[0]] = long.Parse(words[i].Split('=')[1]);
        IntPtr artifact, device, program;
        var info = new Mgx.ArtifactInfo { StructBytes = (UIntPtr)Marshal.SizeOf(typeof(Mgx.ArtifactInfo)) };
        Mgx.Check(Mgx.mgx_artifact_open(words[0], IntPtr.Zero, out artifact));
        Mgx.Check(Mgx.mgx_artifact_get_info(artifact, ref info));
        Mgx.Check(Mgx.mgx_device_open(words[1], IntPtr.Zero, out device));
        Mgx.Check(Mgx.mgx_program_create(artifact, device, IntPtr.Zero, out program));

        var of = Signature(artifact, Mgx.Input, info.Inputs);
        var inputs = new Mgx.Tensor[of.Count];
        for (int i = 0; i < inputs.Length; ++i)
        {
            string[] texts = of[i].Value;
            var sizes = new long[texts.Length];
            for (int axis = 0; axis < texts.Length; ++axis)
                if (!long.TryParse(texts[axis], out sizes[axis]))
                    sizes[axis] = given[texts[axis]];
            Fill(ref inputs[i], sizes, 1);
        }

        of = Signature(artifact, Mgx.Output, info.Outputs);
        var outputs = new Mgx.Tensor[of.Count];
        var found = new long[of.Count][];
        for (int i = 0; i < outputs.Length; ++i)
        {
            found[i] = new long[of[i].Value.Length];
            Fill(ref outputs[i], found[i], 0);
        }
        Mgx.Check(Mgx.mgx_program_sizes(program, inputs, info.Inputs, outputs, info.Outputs, IntPtr.Zero));
        var results = new float[of.Count][];
        for (int i = 0; i < outputs.Length; ++i)
            results[i] = Fill(ref outputs[i], found[i], 0);
        Mgx.Check(Mgx.mgx_run(program, inputs, info.Inputs, outputs, info.Outputs, IntPtr.Zero));
        for (int i = 0; i < outputs.Length; ++i)
        {
            var shown = new string[Math.Min(4, results[i].Length)];
            for (int k = 0; k < shown.Length; ++k)
                shown[k] = results[i][k].ToString("R", CultureInfo.InvariantCulture);
            Console.WriteLine("{0} [{1}] [{2}]", of[i].Key, string.Join(" ", found[i]), string.Join(" ", shown));
        }
        return 0;
    }
}
