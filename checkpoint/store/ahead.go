package store

import "context"

// Chunks that lie one behind the other in a pack are read together, some of these
// stretches of packs at the same time, and past the page cache: a restore reads an
// image once, and the copy that the kernel would keep costs more than unpacking it.

const (
	// together is how much of a pack is read at a time, if no chunk is longer.
	together = 1 << 20
	// readsAhead is how many reads are under way.
	readsAhead = 4
)

// reading is a stretch of a pack on its way.
type reading struct {
	pack  int32
	at    int64 // in the pack
	size  int64
	first int // of the wanted chunks that lie there
	last  int // is not among them
	from  int // where the stretch begins in the buffer
	data  []byte
	err   error
	ready chan struct{}
}

// plan says what is read for the wanted chunks, in their order.
func (i *directoryImage) plan(wanted []Ref) []reading {
	var all []reading
	for n, ref := range wanted {
		at := i.place(ref)
		if last := len(all) - 1; last >= 0 {
			if r := &all[last]; r.pack == at.pack && r.at+r.size == at.at && r.size+int64(at.stored) <= together {
				r.size, r.last = r.size+int64(at.stored), n+1
				continue
			}
		}
		all = append(all, reading{pack: at.pack, at: at.at, size: int64(at.stored), first: n, last: n + 1})
	}
	return all
}

func (i *directoryImage) place(ref Ref) place {
	return i.places[i.manifest.Parts[ref.Part].Chunks[ref.Chunk].Sum]
}

// read fills the reading's buffer, from the unit of the disk on in which it begins.
func (r *reading) read(file oldFile, buffer []byte) {
	defer close(r.ready)
	begin := r.at &^ (directUnit - 1)
	end := (r.at + r.size + directUnit - 1) &^ (directUnit - 1)
	r.from = int(r.at - begin)
	if r.data = buffer; int64(len(buffer)) < end-begin {
		// The runtime aligns what is so large to pages.
		r.data = make([]byte, max(end-begin, together+2*directUnit))
	}
	need := r.from + int(r.size)
	for got := 0; got < need; {
		n, err := file.ReadDirect(r.data[got:end-begin], begin+int64(got))
		if got += n; err != nil && got < need {
			r.err = err
			return
		}
	}
}

// Chunks implements Image.
func (i *directoryImage) Chunks(ctx context.Context, wanted []Ref, each func(n int, stored []byte) error) (err error) {
	all := i.plan(wanted)
	begun := 0
	defer func() {
		for n := range begun { // none uses a buffer any longer
			<-all[n].ready
		}
	}()
	for n := range all {
		for ; begun < min(n+readsAhead, len(all)); begun++ {
			var buffer []byte
			if last := len(i.buffers) - 1; last >= 0 {
				buffer, i.buffers = i.buffers[last], i.buffers[:last]
			}
			r := &all[begun]
			r.ready = make(chan struct{})
			go r.read(i.packs[r.pack].file, buffer)
		}
		r := &all[n]
		<-r.ready
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if r.err != nil {
			ref := wanted[r.first]
			return damage(r.err, i.digest, i.manifest.Parts[ref.Part].Name, int(ref.Chunk), i.File(ref))
		}
		from := r.from
		for k := r.first; k < r.last; k++ {
			stored := int(i.place(wanted[k]).stored)
			if err := each(k, r.data[from:from+stored:from+stored]); err != nil {
				return err
			}
			from += stored
		}
		i.buffers = append(i.buffers, r.data)
		r.data = nil
		i.packs[r.pack].file.Forget(r.at + r.size)
	}
	return nil
}
